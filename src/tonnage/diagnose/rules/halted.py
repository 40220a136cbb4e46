"""What keeps a pod from every node at once: no nodes, affinity that contradicts itself, what is undecided."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.decide.kubernetes.scheduler.filters import node_affinity
from tonnage.diagnose.case import Case
from tonnage.model.verdict import Code, Layer, Reason


def findings(case: Case) -> Iterator[Reason]:
    """Reasons that lie in the pod and the cluster as a whole."""
    pod, decision = case.pod, case.decision
    subject = f"Pod {pod.namespace}/{pod.name}"
    there = case.view.snapshot
    if (
        not case.view.nodes
        and "Node" in there.complete - there.missing
        and not decision.held
        and not decision.gates
    ):
        yield Reason(
            Code.NO_NODES, Layer.SCHEDULER, "Cluster", "there are no nodes", {}, "add a node", "Nodes"
        )
    if decision.conflict and decision.halted_by == node_affinity.NAME:
        told = "the affinity terms pin the pod to different nodes at once"
        yield Reason(
            Code.PINNED_NOWHERE, Layer.SCHEDULER, subject, told, {}, "correct matchFields", "NodeAffinity"
        )
    elif decision.failed and decision.halted_by == node_affinity.NAME:
        told = f"the scheduler fails as soon as two nodes would do: {decision.message}"
        remedy = "correct the value in the preferred node affinity: no label can have it"
        yield Reason(Code.AFFINITY_UNREADABLE, Layer.SCHEDULER, subject, told, {}, remedy, "NodeAffinity")
    for feature in decision.unmodelled:
        told = f"not decided here: {feature}"
        code = Code.UNREADABLE if feature.startswith("unreadable ") else Code.NOT_MODELLED
        yield Reason(code, Layer.SCHEDULER, subject, told, {"feature": feature}, "", "")
