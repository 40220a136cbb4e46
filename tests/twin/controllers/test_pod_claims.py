"""Claims for devices that pods get by a template."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.model.json import JsonObject
from tonnage.twin.controllers.pod_claims import PodClaimsController
from tonnage.wire.kinds import POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE

Cluster = Any
DEVICES: JsonObject = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(PodClaimsController(cluster.api, cluster.clock, cluster.informers, cluster.api).run())
    await cluster.clock.settle()
    return cluster


async def pod(cluster: Cluster, **entry: str) -> None:
    await cluster.apply(POD, "train", cluster.template(resourceClaims=[{"name": "gpu", **entry}]))
    await cluster.clock.advance(1)


async def template(cluster: Cluster) -> None:
    body: JsonObject = {"spec": {"metadata": {"labels": {"a": "b"}}, "spec": DEVICES}}
    await cluster.apply(RESOURCE_CLAIM_TEMPLATE, "one", body)
    await cluster.clock.advance(10)


async def test_a_claim_is_made_once_and_again_when_it_is_deleted_and_goes_with_the_pods_end(
    running: Cluster,
) -> None:
    await template(running)
    await pod(running, resourceClaimTemplateName="one")
    [claim] = await running.all(RESOURCE_CLAIM)
    [owner] = claim.metadata.owner_references
    assert claim.metadata.name.startswith("train-gpu-")
    assert (owner.kind, owner.name, owner.controller, claim.metadata.labels) == (
        "Pod",
        "train",
        True,
        {"a": "b"},
    )
    assert claim.metadata.annotations == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    [train] = await running.all(POD)
    told = {"name": "gpu", "resourceClaimName": claim.metadata.name}
    assert train.status.resource_claim_statuses == [told]
    await running.api.delete(RESOURCE_CLAIM, claim.metadata.name, namespace="default")
    await running.clock.advance(1)
    [again] = await running.all(RESOURCE_CLAIM)
    [train] = await running.all(POD)
    assert train.status.resource_claim_statuses == [{**told, "resourceClaimName": again.metadata.name}]
    await running.set_pod(train, ready=False, phase="Succeeded")
    await running.clock.advance(1)
    assert await running.all(RESOURCE_CLAIM) == []


async def test_a_template_that_is_missing_is_told_until_it_comes(running: Cluster) -> None:
    await pod(running, resourceClaimTemplateName="one")
    missing = 'resourceclaimtemplate.resource.k8s.io "one" not found'
    told = f'PodResourceClaim gpu: resource claim template "one": {missing}'
    assert await running.events("FailedResourceClaimCreation") == [told]
    await template(running)
    assert len(await running.all(RESOURCE_CLAIM)) == 1


async def test_a_claim_that_a_pod_names_is_made_by_somebody_else(running: Cluster) -> None:
    await pod(running, resourceClaimName="mine")
    assert await running.all(RESOURCE_CLAIM) == []


async def test_no_claim_is_made_before_one_that_the_pod_names_ahead_of_it_is_there(running: Cluster) -> None:
    await template(running)
    entries: JsonObject = {
        "resourceClaims": [
            {"name": "own", "resourceClaimName": "mine"},
            {"name": "gpu", "resourceClaimTemplateName": "one"},
        ]
    }
    await running.apply(POD, "train", running.template(**entries))
    await running.clock.advance(1)
    assert await running.all(RESOURCE_CLAIM) == []
    await running.apply(RESOURCE_CLAIM, "mine", {"spec": DEVICES})
    await running.clock.advance(1)
    assert len(await running.all(RESOURCE_CLAIM)) == 2
