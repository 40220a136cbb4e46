"""`explain node`: whether it takes pods, what it runs, and what it has against those that wait."""

from __future__ import annotations

import pytest

from support.explanations import GPU, Body, node, pod
from tonnage.diagnose.explain.nodes.whole_node import explain_node
from tonnage.model.verdict import Verdict
from tonnage.reading.documents import snapshot_from_documents

FOUR: Body = {GPU: "4"}
TEAM = {"key": "team", "value": "b", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("here", "verdict", "message"),
    [
        pytest.param([node("a", devices=FOUR)], Verdict.FITS, f"4 of 4 {GPU} free", id="an empty node"),
        pytest.param(
            [node("a", devices=FOUR), pod("p", FOUR, on="a")],
            Verdict.NOT_NOW,
            f"0 of 4 {GPU} free",
            id="a full node",
        ),
        pytest.param(
            [node("a", devices=FOUR, taints=[TEAM])],
            Verdict.FITS,
            f"4 of 4 {GPU} free; pods must tolerate team=b:NoSchedule",
            id="a tainted node takes who tolerates it",
        ),
        pytest.param(
            [node("a", devices=FOUR, unschedulable=True)],
            Verdict.NOT_NOW,
            f"4 of 4 {GPU} free; the node is cordoned (spec.unschedulable)",
            id="a cordoned node",
        ),
        pytest.param([node("a")], Verdict.FITS, "it offers no device", id="a node without devices"),
    ],
)
def test_a_node_is_asked_for_one_of_each_of_its_devices(
    here: list[Body], verdict: Verdict, message: str
) -> None:
    answer = explain_node("a", snapshot_from_documents(here))
    assert answer is not None
    assert (answer.verdict, answer.message) == (verdict, message)


def test_its_pods_stand_beside_those_that_it_does_not_take() -> None:
    pods = [pod("runs", {GPU: "2"}, on="a"), pod("large"), pod("x", {GPU: "3"}), pod("y", {GPU: "3"})]
    answer = explain_node("a", snapshot_from_documents([node("a", devices=FOUR), node("b"), *pods]))
    assert answer is not None
    groups = {group.names: (group.explanation.verdict, group.explanation.message) for group in answer.pods}
    assert groups["ml/runs",][0] is Verdict.RUNNING
    assert groups["ml/x", "ml/y"][0] is Verdict.NOT_NOW
    assert groups["ml/x", "ml/y"][1].startswith(f"waits: asks 3 {GPU}, 2 free")
    assert groups["ml/large",] == (Verdict.FITS, "waits: the node can take it: something else holds it back")


def test_a_silent_agent_is_told_of_a_node_that_has_room() -> None:
    report = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "NodeGPUStatus", "metadata": {"name": "a"}}
    old, new = ({**report, "status": {"heartbeatAt": f"2026-01-0{day}T00:00:00Z"}} for day in (1, 2))
    other = {**new, "metadata": {"name": "b"}}
    here = [node("a", devices=FOUR), node("b", devices=FOUR), old, other]
    answer = explain_node("a", snapshot_from_documents(here))
    assert answer is not None
    assert answer.verdict is Verdict.FITS
    assert [reason.code for reason in answer.reasons] == ["agent-silent"]
    assert "no heartbeat of the agent of a (1d)" in answer.message
