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
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CONFIG_MAP,
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
