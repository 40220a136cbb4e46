"""The engine against 738 recorded answers of the real kube-scheduler 1.35.4."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from support.sampling import Sampler
from tonnage.decide.kubernetes.scheduler.scheduling import SchedulingDecision, schedule
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.reading.cluster import pod_from, snapshot_from
from tonnage.wire import claims as claim_objects
from tonnage.wire import objects as w

_DATA: Final = Path(__file__).parents[3] / "data"
_FILES: Final = ("kube-scheduler-1.35.4-golden-38.json.gz", "kube-scheduler-1.35.4-fuzz-700.json.gz")
CASES: Final = 738
UNORDERED: Final = "preempt_lower_priority"
"""Eight equal pods without a start time, of which four must go: which four is not defined."""


@cache
def cases() -> dict[str, dict[str, Any]]:
    """Every recorded case by scenario name."""
    found: dict[str, dict[str, Any]] = {}
    for name in _FILES:
        with gzip.open(_DATA / name) as file:
            found |= {case["scenario"]["name"]: case for case in json.load(file)["cases"]}
    return found


def read(scenario: dict[str, Any]) -> tuple[Pod, Snapshot]:
    """The pending pod and the cluster."""
    objects = [
        *(msgspec.convert(node, w.Node) for node in scenario["nodes"]),
        *(msgspec.convert(pod, w.Pod) for pod in scenario["pods"]),
        *(msgspec.convert(budget, w.PodDisruptionBudget) for budget in scenario.get("pdbs", ())),
        *(msgspec.convert(one, claim_objects.ResourceSlice) for one in scenario.get("slices", ())),
        *(msgspec.convert(one, claim_objects.DeviceClass) for one in scenario.get("classes", ())),
        *(msgspec.convert(claim, claim_objects.ResourceClaim) for claim in scenario.get("claims", ())),
    ]
    pending = msgspec.convert(scenario["pending"][0], w.Pod)
    return pod_from(pending), snapshot_from(objects, server_version="1.35.4")


def test_no_case_is_left_out() -> None:
    assert len(cases()) == CASES


@pytest.mark.sampled("recorded verdicts of kube-scheduler")
@pytest.mark.parametrize("name", list(cases()))
def test_agrees_with_the_recording(name: str) -> None:
    case = cases()[name]
    pod, snapshot = read(case["scenario"])
    decision = schedule(pod, snapshot)
    expect = case["expect"]
    if expect.get("gated"):
        assert decision.gates or decision.held
        assert decision.chosen is None
    elif "node" in expect:
        assert_placed(expect, decision)
    else:
        assert decision.message == expect["message"]
        assert decision.nominated == expect.get("nominated")
        victims = {victim.name for victim in decision.victims}
        if name == UNORDERED:
            assert len(victims) == len(expect["victims"])
        else:
            assert victims == set(expect.get("victims", ()))


def assert_placed(expect: dict[str, Any], decision: SchedulingDecision) -> None:
    if "scores" not in expect:
        assert decision.feasible == (expect["node"],)
        assert decision.chosen == expect["node"]
        return
    assert decision.scores == expect["scores"]
    totals = {name: row["total"] for name, row in decision.scores.items()}
    assert totals[expect["node"]] == max(totals.values())
    assert decision.chosen is not None
    assert totals[decision.chosen] == max(totals.values())


def test_looking_at_every_filter_changes_no_answer(sample: Sampler) -> None:
    for name in sample.items("recorded clusters judged by every filter", list(cases())):
        pod, snapshot = read(cases()[name]["scenario"])
        short, long = schedule(pod, snapshot), schedule(pod, snapshot, thorough=True)
        first = {node: refusals[0] for node, refusals in long.refusals.items()}
        assert first == {node: refusals[0] for node, refusals in short.refusals.items()}, name
        assert (long.message, long.chosen, long.victims) == (short.message, short.chosen, short.victims), name
