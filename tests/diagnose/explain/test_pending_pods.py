"""`explain --all-pending`: pods by what they wait for."""

from __future__ import annotations

import pytest

from support.explanations import GPU, node, pod
from tonnage.diagnose.explain.pending import pending_lines, pending_pods
from tonnage.model.verdict import Verdict
from tonnage.reading.documents import snapshot_from_documents

PODS = [
    *(pod(f"large-{number}", {GPU: "8"}) for number in range(3)),
    *(pod(f"elsewhere-{number}", nodeSelector={"zone": "b"}) for number in range(2)),
    pod("runs", {GPU: "4"}, on="a"),
]


def test_the_cause_of_most_pods_comes_first() -> None:
    pending = pending_pods(snapshot_from_documents([node("a", devices={GPU: "4"}), *PODS]))
    causes = [(cause.code, cause.verdict, len(cause.pods)) for cause in pending.causes]
    assert causes == [
        ("resource-too-large", Verdict.NEVER, 3),
        ("node-affinity-mismatch", Verdict.NEVER, 2),
    ]
    assert next(iter(pending_lines(pending))) == "5 pods are pending, for 2 causes"


def test_a_pod_that_kubelet_cannot_start_is_pending_too() -> None:
    stuck = pod("stuck", on="a")
    waiting = {"reason": "ImagePullBackOff", "message": "not found"}
    stuck["status"] = {
        "phase": "Pending",
        "containerStatuses": [{"name": "main", "state": {"waiting": waiting}}],
    }
    pending = pending_pods(snapshot_from_documents([node("a", devices={GPU: "4"}), stuck]))
    assert [(cause.code, cause.pods) for cause in pending.causes] == [("image-pull", ("ml/stuck",))]
    assert not pending.good


def test_a_pod_whose_turn_has_yet_to_come_is_well() -> None:
    pending = pending_pods(snapshot_from_documents([node("a", devices={GPU: "4"}), pod("new")]))
    assert [(cause.verdict, cause.message) for cause in pending.causes] == [(Verdict.FITS, "fits a")]
    assert pending.good


def test_of_one_namespace_only_its_pods() -> None:
    cluster = snapshot_from_documents([node("a"), *PODS])
    assert pending_pods(cluster, namespace="other").count == 0


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_which_cause_is_told_does_not_hang_on_the_names_of_nodes(names: tuple[str, str]) -> None:
    with_gpu, without = names
    nodes = [node(with_gpu, devices={GPU: "1"}), node(without)]
    [cause] = pending_pods(snapshot_from_documents([*nodes, pod("train", {GPU: "2"})])).causes
    assert cause.code == "resource-too-large"
