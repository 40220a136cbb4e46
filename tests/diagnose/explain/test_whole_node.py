"""`explain node`: whether it takes pods, what it runs, and what it has against those that wait."""

from __future__ import annotations

import pytest

from support.explanations import GPU, Body, node, pod
from tonnage.diagnose.explain.explain import explain, find_pod
from tonnage.diagnose.explain.nodes.whole_node import explain_node
from tonnage.diagnose.explain.text import explanation_lines
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


def test_pods_that_wait_for_something_else_are_not_said_to_be_on_the_node() -> None:
    objects = [node("a", devices=FOUR), pod("x"), pod("y")]
    answer = explain_node("a", snapshot_from_documents(objects))
    assert answer is not None
    waits = "  ml/x, ml/y: FITS, waits: the node can take it: something else holds it back"
    assert waits in list(explanation_lines(answer))


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


def test_a_faulty_device_is_repaired_before_anything_is_waited_for() -> None:
    device = {"uuid": "GPU-1", "index": 1, "resource": GPU, "health": "Unhealthy", "reason": "Xid 79"}
    report = {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGPUStatus",
        "metadata": {"name": "a"},
        "status": {"devices": [device]},
    }
    here = [node("a", devices={GPU: "1"}), pod("p", {GPU: "1"}, on="a"), report]
    answer = explain_node("a", snapshot_from_documents(here))
    assert answer is not None
    assert [remedy.action for remedy in answer.remedies] == [
        "repair GPU 1 (GPU-1): Xid 79",
        "wait for a pod there to end, or free one",
    ]


def test_pods_of_a_daemonset_for_other_nodes_do_not_wait_for_this_one() -> None:
    daemons = [pod(f"d-{name}", FOUR) for name in "ab"]
    for name, daemon in zip("ab", daemons, strict=True):
        fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
        required = {"nodeSelectorTerms": [{"matchFields": fields}]}
        daemon["spec"]["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
        }
    nodes = [node(name, devices=FOUR) for name in "ab"]
    answer = explain_node("a", snapshot_from_documents([*nodes, *daemons]))
    assert answer is not None
    assert [group.names for group in answer.pods] == [("ml/d-a",)]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        pytest.param("a", f"asks 2 {GPU}, none free (4 of 2 taken)", id="on one node"),
        pytest.param("ab", f"asks for 2 {GPU}, 0 free on each", id="on two alike"),
    ],
)
def test_more_taken_than_there_is_leaves_nothing_free(nodes: str, message: str) -> None:
    """A device failed while a pod held it."""
    here = [node(name, devices={GPU: "2"}) for name in nodes]
    here += [pod(f"p-{name}", FOUR, on=name) for name in nodes]
    snapshot = snapshot_from_documents([*here, pod("waits", {GPU: "2"})])
    waiting = find_pod(snapshot, "ml", "waits")
    assert waiting is not None
    text = "\n".join(explanation_lines(explain(waiting, snapshot)))
    assert message in text
    assert "-2" not in text
