"""Autoscalers where nothing is measured keep to their bounds and say what they lack."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.model.json import JsonObject
from tonnage.twin.controllers.autoscaler import AUTOSCALER, AutoscalerController
from tonnage.wire.kinds import DEPLOYMENT, POD

Cluster = Any


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(AutoscalerController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


async def status(cluster: Cluster, **spec: Any) -> JsonObject:
    """What an autoscaler of the Deployment `web` says after its first look."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    await cluster.apply(AUTOSCALER, "h", {"spec": {"maxReplicas": 3, "scaleTargetRef": target, **spec}})
    await cluster.clock.advance(16)
    found: JsonObject = (await cluster.api.get(AUTOSCALER, "h", "default")).status
    return found


def told(found: Any) -> list[tuple[str, str, str]]:
    return [(one["type"], one["status"], one["reason"]) for one in found["conditions"]]


ABLE = ("AbleToScale", "True", "SucceededGetScale")


@pytest.mark.parametrize(
    ("replicas", "left", "conditions"),
    [
        (2, 2, [ABLE, ("ScalingActive", "False", "FailedGetResourceMetric")]),
        (0, 0, [ABLE, ("ScalingActive", "False", "ScalingDisabled")]),
        (5, 3, [("AbleToScale", "True", "SucceededRescale")]),
        (1, 2, [("AbleToScale", "True", "SucceededRescale")]),
    ],
    ids=["within the bounds", "scaled to nothing", "above the most", "below the least"],
)
async def test_replicas_are_kept_within_the_bounds(
    running: Cluster, replicas: int, left: int, conditions: list[tuple[str, str, str]]
) -> None:
    await running.apply(DEPLOYMENT, "web", running.workload(replicas))
    assert told(await status(running, minReplicas=2)) == conditions
    assert (await running.api.get(DEPLOYMENT, "web", "default")).spec.replicas == left


async def test_autoscalers_of_the_same_pods_say_so(running: Cluster) -> None:
    await running.apply(DEPLOYMENT, "web", running.workload(1))
    labels = (await running.api.get(DEPLOYMENT, "web", "default")).spec.selector.match_labels
    await running.apply(POD, "p", {**running.template(), "metadata": {"labels": labels}})
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    await running.apply(AUTOSCALER, "g", {"spec": {"maxReplicas": 3, "scaleTargetRef": target}})
    found = await status(running)
    assert told(found) == [ABLE, ("ScalingActive", "False", "AmbiguousSelector")]
    shown = ",".join(f"{key}={value}" for key, value in labels.items())
    why = f"pods by selector {shown} are controlled by multiple HPAs: [default/g default/h]"
    assert await running.events("AmbiguousSelector") == [why]
    assert why in await running.events("FailedComputeMetricsReplicas")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ({}, 'deployments.apps "web" not found'),
        ({"kind": "Other"}, 'no matches for kind "Other" in group "apps"'),
        ({"apiVersion": "batch/v1", "kind": "Job"}, "the server could not find the requested resource"),
    ],
    ids=["not there", "of no kind", "without a scale"],
)
async def test_what_cannot_be_scaled_is_told(running: Cluster, target: JsonObject, why: str) -> None:
    whole = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", **target}
    found = await status(running, scaleTargetRef=whole)
    assert told(found) == [("AbleToScale", "False", "FailedGetScale")]
    assert await running.events("FailedGetScale") == [why]
