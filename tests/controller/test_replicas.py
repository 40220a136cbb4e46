"""The controller at rest, in a dry run, and where another replica takes over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.test_operator import OPTIONS, Bench, bench
from tonnage.cli.controller import words_of
from tonnage.controller.options import ControllerOptions
from tonnage.loop.performer import ActionRecord
from tonnage.model.actions.cluster import PatchNode
from tonnage.model.catalog.nvidia_kinds import nvidia_definition
from tonnage.model.errors import ApiError, ClusterError
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CONFIG_MAP,
    CUSTOM_RESOURCE,
    EVENT,
    LEASE,
    NODE,
)

__all__ = ["bench"]


async def test_a_change_of_state_is_an_event(bench: Bench) -> None:
    await bench.policy()
    bench.start()
    await bench.clock.advance(5)
    events = (await bench.api.list(EVENT, namespace="default")).items
    assert [(event.type, event.reason) for event in events] == [("Normal", "NoGPUNodes")]


async def test_at_rest_nothing_is_written_but_the_lease(bench: Bench) -> None:
    await bench.node("a")
    await bench.report("a")
    await bench.policy()
    bench.start()
    await bench.clock.advance(5)
    before = [
        (obj.kind, obj.metadata.resource_version)
        for kind in (NODE, CLUSTER_POLICY, CONFIG_MAP, EVENT)
        for obj in (await bench.api.list(kind)).items
    ]
    await bench.clock.advance(100)
    after = [
        (obj.kind, obj.metadata.resource_version)
        for kind in (NODE, CLUSTER_POLICY, CONFIG_MAP, EVENT)
        for obj in (await bench.api.list(kind)).items
    ]
    assert after == before


async def test_a_dry_run_says_what_it_would_do_and_changes_nothing(bench: Bench) -> None:
    await bench.node("a")
    await bench.policy()
    withheld: list[ActionRecord] = []
    bench.start(replace(OPTIONS, dry_run=True, once=True), withheld=withheld.append)
    await bench.clock.advance(5)
    assert bench.tasks[0].done()
    assert {type(record.action).__name__ for record in withheld} == {
        "PatchNode",
        "PatchPolicyStatus",
        "ApplyConfigMap",
        "ApplyObject",
        "CreateEvent",
    }
    assert "nvidia.com/gpu.present" not in await bench.labels("a")
    assert not (await bench.status())
    assert not (await bench.api.list(LEASE)).items


@pytest.mark.parametrize(
    ("options", "kind", "remedy"),
    [
        (replace(OPTIONS, dry_run=True, once=True), "ClusterPolicy", "--upgrade-definitions"),
        (replace(OPTIONS, dry_run=True), "ClusterPolicy", "--upgrade-definitions"),
        (replace(OPTIONS, dry_run=True, once=True), "NodeGPUStatus", "crds.enabled"),
        (replace(OPTIONS, dry_run=True, once=True, drivers=True), "NVIDIADriver", "--upgrade-definitions"),
    ],
)
async def test_a_dry_run_ends_where_a_definition_is_missing(
    bench: Bench, options: ControllerOptions, kind: str, remedy: str
) -> None:
    for defined in (await bench.api.list(CUSTOM_RESOURCE)).items:
        if defined.spec["names"]["kind"] == kind:
            await bench.api.delete(CUSTOM_RESOURCE, defined.metadata.name)
    bench.start(options)
    await bench.clock.advance(5)
    [controller] = bench.tasks
    bench.tasks.clear()
    assert controller.done()
    with pytest.raises(ClusterError, match=f"the definition of {kind} is missing") as refused:
        controller.result()
    assert remedy in refused.value.problems[0].remedy


async def test_a_dry_run_ends_where_a_kind_may_not_be_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = type(bench.api).list

    async def refusing(self: Any, kind: Any, **options: Any) -> Any:
        if kind.kind == "RuntimeClass":
            raise ApiError(403, "Forbidden", "runtimeclasses.node.k8s.io is forbidden")
        return await listing(self, kind, **options)

    monkeypatch.setattr(type(bench.api), "list", refusing)
    bench.start(replace(OPTIONS, dry_run=True, once=True))
    await bench.clock.advance(5)
    [controller] = bench.tasks
    bench.tasks.clear()
    assert controller.done()
    with pytest.raises(ApiError, match="runtimeclasses"):
        controller.result()


async def test_a_controller_waits_for_a_definition(bench: Bench) -> None:
    await bench.api.delete(CUSTOM_RESOURCE, "clusterpolicies.nvidia.com")
    bench.start()
    await bench.clock.advance(60)
    assert not bench.tasks[0].done()
    await bench.api.create(CUSTOM_RESOURCE, nvidia_definition("clusterpolicies"))
    await bench.node("a")
    await bench.policy()
    await bench.clock.advance(60)
    assert await bench.status()


async def test_a_second_replica_takes_over(bench: Bench) -> None:
    await bench.policy()
    bench.start()
    await bench.clock.advance(3)
    bench.start(
        ControllerOptions(namespace="tonnage-system", operator_namespace="gpu-operator", identity="b")
    )
    await bench.clock.advance(3)
    bench.tasks[0].cancel()
    await bench.clock.advance(5)
    await bench.node("late")
    await bench.clock.advance(2)
    assert (await bench.labels("late"))["nvidia.com/gpu.present"] == "true"


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (
            {
                "metadata": {
                    "labels": {"a": "b", "c": None},
                    "annotations": {"d": "e"},
                    "resourceVersion": "1",
                }
            },
            "change node n: labels a=b, remove c; annotations d=e",
        ),
        ({"spec": {"unschedulable": True}, "metadata": {"labels": {"a": "b"}}}, "cordon node n: labels a=b"),
        ({"spec": {"unschedulable": None}}, "uncordon node n"),
    ],
    ids=["labels and annotations", "a cordon", "the end of one"],
)
def test_a_dry_run_says_what_it_would_change_on_a_node(patch: Any, words: str) -> None:
    assert words_of(PatchNode("n", patch)) == words
