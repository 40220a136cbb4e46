"""What keeps a pod from every node at once: no nodes, affinity that contradicts itself, what is undecided."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.decide.kubernetes.scheduler.filters import node_affinity
from tonnage.diagnose.case import Case
from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.admission import Unreadable
from tonnage.model.reasons.pod.pods import AffinityNotReadable, NodePinsConflict, NoNodes, NotModelled
from tonnage.model.reasons.reason import Reason


def reasons(case: Case) -> Iterator[Reason]:
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
        yield NoNodes(
            subject="Cluster",
            message="there are no nodes",
            remedy="add a node",
            source="Nodes",
        )
    if decision.conflict and decision.halted_by == node_affinity.NAME:
        message = "the affinity terms pin the pod to different nodes at once"
        yield NodePinsConflict(
            subject=subject,
            message=message,
            remedy="correct matchFields",
            source="NodeAffinity",
        )
    elif decision.failed and decision.halted_by == node_affinity.NAME:
        message = f"the scheduler fails as soon as two nodes fit: {decision.message}"
        remedy = "correct the value in the preferred node affinity: no label can have it"
        yield AffinityNotReadable(
            subject=subject,
            message=message,
            remedy=remedy,
            source="NodeAffinity",
        )
    for feature in decision.unmodelled:
        message = f"Tonnage does not decide this: {feature}"
        if feature.startswith("unreadable "):
            yield Unreadable(subject=subject, message=message, layer=Layer.SCHEDULER, feature=feature)
        else:
            yield NotModelled(subject=subject, message=message, feature=feature)
