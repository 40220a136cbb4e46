"""Pods that name their node: no scheduler looks at them, and the node's kubelet decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.kubelet.node_admission import (
    NodeAdmissionFailure,
    node_admission_failure,
    unknown_devices,
)
from tonnage.decide.kubernetes.matching import untolerated
from tonnage.decide.kubernetes.requests import written_amount, written_apart
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.diagnose.case import device_needs
from tonnage.diagnose.explain.bound.missing_node import node_gone
from tonnage.diagnose.explain.nodes.alignment import kubelet_reasons
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.layer import Layer
from tonnage.model.name_lists import listed
from tonnage.model.reasons.pod.kubelet import KubeletRejected
from tonnage.model.reasons.pod.pods import KindNotRead
from tonnage.model.reasons.pod.scheduling import NodeNameMismatch, ResourceNotAdvertised
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Explanation, Placement, Remedy, Subject, Verdict

ADMISSION: Final = "kubelet, admission of pods"
_LET_GO: Final = "remove spec.nodeName, so that the scheduler chooses a node"


def explain_bound(
    pod: Pod, subject: Subject, view: ClusterView, later: Callable[[Pod], Explanation]
) -> Explanation:
    """What becomes of a manifest with `spec.nodeName`; `later` tells it of one without."""
    gone = _nowhere(pod, view.snapshot)
    reasons = (gone,) if gone is not None else tuple(_reasons(pod, view.nodes[pod.node_name], view))
    turned = None if gone is not None else node_admission_failure(pod, view.nodes[pod.node_name])
    first = next(iter(reasons), None)
    return Explanation(
        subject=subject,
        verdict=_verdict(first),
        layer=first.layer if first is not None else None,
        phase=pod.status.phase,
        needs=device_needs(pod),
        message=first.message if first else f"{pod.node_name}, which spec.nodeName names, takes it",
        upstream_message=f"Pod was rejected: {turned.upstream_message}" if turned is not None else "",
        placement=Placement(pod.node_name if first is None else None),
        reasons=reasons,
        remedies=(_let_go(later(replace(pod, node_name=""))),) if first is not None else (),
    )


def rejection_to_come(pod: Pod, snapshot: Snapshot) -> Reason | None:
    """Why the kubelet will fail a pod that it was given and has not looked at, beside those that it runs."""
    node = next((node for node in snapshot.nodes if node.name == pod.node_name), None)
    if (
        node is None
        or not node.allocatable
        or pod.status.start is not None
        or pod.status.waiting
        or pod.status.terminating
    ):
        return None
    running = [
        other
        for other in snapshot.pods
        if other.node_name == node.name and not other.finished and other.status.start is not None
    ]
    view = NodeView(node).plus(running)
    turned = node_admission_failure(pod, view)
    return _rejected(pod, view, turned) if turned is not None else None


def _nowhere(pod: Pod, snapshot: Snapshot) -> Reason | None:
    gone = node_gone(pod, snapshot)
    if gone is None or isinstance(gone, KindNotRead):
        return gone
    message = f"spec.nodeName names {pod.node_name}, a node that does not exist: no kubelet will start it"
    return NodeNameMismatch(
        subject=gone.subject, message=message, remedy=_LET_GO, source=gone.source, node=pod.node_name
    )


def _verdict(first: Reason | None) -> Verdict:
    if first is None:
        return Verdict.FITS
    if isinstance(first, KindNotRead):
        return Verdict.UNKNOWN
    return Verdict.NEVER if first.lasting else Verdict.NOT_NOW


def _let_go(after: Explanation) -> Remedy:
    effect = after.message if after.verdict is Verdict.FITS else f"then {after.verdict}: {after.message}"
    return Remedy(_LET_GO, effect, {"spec": {"nodeName": None}})


def _reasons(pod: Pod, node: NodeView, view: ClusterView) -> Iterator[Reason]:
    turned = node_admission_failure(pod, node)
    if turned is not None:
        yield _rejected(pod, node, turned)
        return
    yield from kubelet_reasons(pod, node, view)
    for name in unknown_devices(pod, node):
        yield ResourceNotAdvertised(
            subject=f"Resource {name}",
            message=f"{node.name} does not know {name}: its kubelet starts the pod without it",
            remedy=_LET_GO,
            source=ADMISSION,
            layer=Layer.PLUGIN,
            resource=name,
            node=node.name,
        )


def _rejected(pod: Pod, node: NodeView, turned: NodeAdmissionFailure) -> Reason:
    message, remedy = _turned_text(pod, node, turned)
    return KubeletRejected(
        subject=f"Pod {pod.namespace}/{pod.name}",
        message=f"the kubelet of {node.name} rejects it ({turned.reason}): {message}",
        remedy=remedy,
        source=ADMISSION,
        lasting=turned.lasting,
        node=node.name,
        reason=turned.reason,
    )


def _turned_text(pod: Pod, node: NodeView, turned: NodeAdmissionFailure) -> tuple[str, str]:
    name = turned.resource
    if name and turned.lasting:
        requested, there = written_apart(name, turned.requested, turned.there)
        return f"asks for {requested} {name}, the node has {there}", f"ask for at most {there} {name}"
    if name:
        requested, free = written_apart(name, turned.requested, turned.there - turned.used)
        there = written_amount(name, turned.there)
        return f"asks for {requested} {name}, {free} of {there} are free", "wait for a pod there to end"
    match turned.reason:
        case "NodeAffinity":
            return "its node selector or affinity excludes the node", _LET_GO
        case "NodePorts":
            return (
                "a host port that it asks for is taken",
                "wait for the pod that has it to end, or use another port",
            )
        case _:
            taints = listed(map(str, untolerated(node.node.taints, pod.tolerations, ("NoExecute",))))
            return f"it does not tolerate {taints}", "tolerate it if the pod belongs there"
