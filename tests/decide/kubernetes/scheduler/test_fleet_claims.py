"""Pods with claims on columns against the plain engine, which asks each node, on fleets made by chance."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from support.claim_fleets import (
    FAILS_ON_SOME,
    LARGE,
    MODEL,
    asking,
    asking_first_of,
    claim_fleet,
    claiming,
)
from tonnage.decide.kubernetes.scheduler.filtering import filter_nodes
from tonnage.decide.kubernetes.scheduler.fleet.engine import engine_of
from tonnage.decide.kubernetes.scheduler.scheduling import schedule_on
from tonnage.decide.kubernetes.view import view_of
from tonnage.model.kubernetes.cluster import Container, Pod
from tonnage.model.kubernetes.resource_claims import Constraint, ResourceClaim

CLAIMS = [
    pytest.param((asking(1),), id="any device"),
    pytest.param((asking(2, LARGE),), id="two by a capacity"),
    pytest.param((asking(2, MODEL, constraint="gpu.nvidia.com/numa"),), id="two of one NUMA node"),
    pytest.param((asking(1, LARGE), asking(1, MODEL)), id="two claims of one pod"),
    pytest.param((asking_first_of((2, LARGE), (1, LARGE), (1, MODEL)),), id="alternatives"),
    pytest.param((asking(9),), id="more than any node has"),
]
VERSIONS = ["1.34", "1.35", "1.36", "1.37"]


@pytest.mark.sampled("random clusters with claims for both engines", share="1/3")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("expected", CLAIMS)
def test_both_engines_decide_alike(expected: tuple[ResourceClaim, ...], version: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(7):
        pod, claims = claiming("p", *expected, cpu=100 * (seed % 2))
        snapshot = claim_fleet(Random(f"{version}/{seed}"), 2 + 4 * seed, version)
        snapshot = replace(snapshot, claims=(*snapshot.claims, *claims))
        busy = Pod("busy", "ml", node_name="node-00", containers=(Container("c", requests={"cpu": 7950}),))
        view = view_of(replace(snapshot, pods=(busy,)))
        engine = engine_of(view, rows := range(len(view.nodes)), rows)
        assert engine.can_decide(pod)
        fast, plain = schedule_on(pod, view, engine=engine), schedule_on(pod, view)
        assert (fast.chosen, fast.feasible, fast.scores, fast.message, fast.frees) == (
            (plain.chosen, plain.feasible, plain.scores, plain.message, plain.frees)
        )
        assert engine.best(pod) == plain.chosen
        counts["feasible"] += len(plain.feasible)
        counts["refused"] += len(plain.refusals)
    assert counts["refused"]
    assert counts["feasible"] or expected[0].requests[0].count == 9


@pytest.mark.parametrize("version", ["1.35", "1.37"])
def test_both_engines_preempt_alike(version: str) -> None:
    counts: Counter[bool] = Counter()
    for seed in range(16):
        chance = Random(f"preempt/{version}/{seed}")
        pod, claims = claiming("p", asking(1, LARGE), cpu=1000)
        pod = replace(pod, priority=5)
        snapshot = claim_fleet(chance, 4, version)
        pods = tuple(
            Pod(f"busy-{node.name}", "ml", uid=node.name, node_name=node.name, priority=chance.choice((0, 9)),
                containers=(Container("c", requests={"cpu": 7500}),))
            for node in snapshot.nodes
        )  # fmt: skip
        view = view_of(replace(snapshot, pods=pods, claims=(*snapshot.claims, *claims)))
        engine = engine_of(view, rows := range(len(view.nodes)), rows)
        fast, plain = schedule_on(pod, view, engine=engine), schedule_on(pod, view)
        assert (fast.nominated, fast.victims, fast.equals, fast.message) == (
            (plain.nominated, plain.victims, plain.equals, plain.message)
        )
        counts[plain.nominated is not None] += 1
    assert min(counts.values()) > 1


def _of_no_kind(claim: ResourceClaim) -> ResourceClaim:
    return replace(claim, constraints=(Constraint(""),))


@pytest.mark.parametrize(
    "expected",
    [
        pytest.param(asking(1, FAILS_ON_SOME), id="a selector that fails on some devices"),
        pytest.param(asking(33), id="more devices than a claim can hold"),
        pytest.param(_of_no_kind(asking(1)), id="a constraint of no kind"),
        pytest.param(replace(asking(1), in_flight=True), id="a claim that is being allocated"),
    ],
)
def test_what_fails_the_allocator_is_asked_node_by_node(expected: ResourceClaim) -> None:
    pod, claims = claiming("p", expected)
    snapshot = claim_fleet(Random("fails"), 80, "1.35")
    view = view_of(replace(snapshot, claims=(*snapshot.claims, *claims)))
    engine = engine_of(view, rows := range(len(view.nodes)), rows)
    assert not engine.can_decide(pod)
    plain = filter_nodes(pod, view)
    assert plain.error or plain.conflict
