"""A scheduler's words of whatever release, taken apart; and that they decide nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.diagnose.explain.explain import explain
from tonnage.diagnose.scheduler_message import TAINTS, parsed_message
from tonnage.model.reasons.pod.pods import ConditionDiffers
from tonnage.model.verdict import Explanation
from tonnage.reading.documents import snapshot_from_documents

GPUS = "Insufficient nvidia.com/gpu"
VICTIMS = "0/3 nodes are available: 3 No preemption victims found for incoming pod."


@pytest.mark.parametrize(
    ("message", "counts", "whole", "preemption"),
    [
        pytest.param(
            f"0/3 nodes are available: 3 {GPUS}. no new claims to deallocate, preemption: {VICTIMS}",
            {GPUS: 3},
            "",
            VICTIMS,
            id="1.35",
        ),
        pytest.param(
            f"0/3 nodes are available: 3 {GPUS}. still not schedulable, preemption: {VICTIMS}",
            {GPUS: 3},
            "",
            VICTIMS,
            id="with claims",
        ),
        pytest.param(
            f"0/3 nodes are available: 3 {GPUS}. preemption: {VICTIMS}", {GPUS: 3}, "", VICTIMS, id="1.31"
        ),
        pytest.param(
            f"0/3 nodes are available: 1 {GPUS}, 2 node(s) had taint {{a: b}}, that the pod didn't tolerate.",
            {GPUS: 1, TAINTS: 2},
            "",
            "",
            id="1.20, with a comma in a reason",
        ),
        pytest.param(
            "0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, "
            f"2 node(s) had untolerated taint {{c: d}}. preemption: {VICTIMS}.",
            {TAINTS: 3},
            "",
            f"{VICTIMS}.",
            id="1.24 names taints and ends with two full stops",
        ),
        pytest.param(
            "0/2 nodes are available: 2 node(s) had volume node affinity conflict.",
            {"node(s) didn't match PersistentVolume's node affinity": 2},
            "",
            "",
            id="before 1.33 on volumes",
        ),
        pytest.param(
            "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
            {},
            "pod has unbound immediate PersistentVolumeClaims",
            "",
            id="a plugin that ends the cycle",
        ),
        pytest.param(
            "no nodes available to schedule pods", {}, "no nodes available to schedule pods", "", id="none"
        ),
        pytest.param("", {}, "", "", id="nothing"),
    ],
)
def test_messages_of_all_releases(message: str, counts: object, whole: str, preemption: str) -> None:
    found = parsed_message(message)
    assert (found.counts, found.whole, found.preemption) == (counts, whole, preemption)


@given(st.text(st.sampled_from("0/3 nodesarvilb:,.1 {}'()"), max_size=200))
def test_no_words_are_an_error(text: str) -> None:
    parsed_message(text)
    parsed_message(f"0/3 nodes are available: {text}")


def told(message: str, *, taints: bool) -> Explanation:
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "10"}
    node: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
        "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}] if taints else []},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ml"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    snapshot = snapshot_from_documents([node, pod], server_version="1.35")
    return explain(snapshot.pods[0], snapshot)


@pytest.mark.parametrize(
    ("message", "taints", "says"),
    [
        ("0/1 nodes are available: 1 node(s) had taint {k: v}, that the pod didn't tolerate..", True, ""),
        ("0/1 nodes are available: 1 node(s) had untolerated taint {k: v}. preemption: x", True, ""),
        ("0/1 nodes are available: 1 node(s) had untolerated taint(s).", False, "by the objects it fits a"),
        (
            "0/3 nodes are available: 3 node(s) had untolerated taint(s).",
            True,
            "it counts 3 nodes, there are 1",
        ),
        ("0/1 nodes are available: 1 Insufficient cpu.", True, "no longer true: 1 Insufficient cpu"),
        ("no nodes available to schedule pods", True, "it counts 0 nodes, there are 1"),
        ("0/1 nodes are available: 1 Insufficient [redacted].", True, ""),
    ],
)
def test_what_differs_is_told_and_decides_nothing(message: str, taints: bool, says: str) -> None:
    explanation = told(message, taints=taints)
    reasons = [reason for reason in explanation.reasons if reason.code == ConditionDiffers.code]
    assert bool(reasons) is bool(says)
    assert all(says in reason.message for reason in reasons)
    assert explanation.verdict.value == ("NEVER" if taints else "FITS")
