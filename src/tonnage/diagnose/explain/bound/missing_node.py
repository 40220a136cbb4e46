"""Pods bound to a node that is not there: no kubelet speaks for them."""

from __future__ import annotations

from tonnage.diagnose.missing_kinds import unread_remedy, unread_text
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.kubelet import NodeMissing
from tonnage.model.reasons.pod.pods import KindNotRead
from tonnage.model.reasons.reason import Reason


def node_gone(pod: Pod, snapshot: Snapshot) -> Reason | None:
    """Why a pod that has not ended is on no node of the cluster; None when its node is there.

    Where the nodes were not read, or none was given, nothing is known of it: `kind-not-read`.
    """
    node = pod.node_name
    if not node or pod.finished or any(candidate.name == node for candidate in snapshot.nodes):
        return None
    subject = f"Pod {pod.namespace}/{pod.name}"
    nodes_read = "Node" in snapshot.complete or bool(snapshot.nodes)
    if "Node" in snapshot.missing or not nodes_read:
        return KindNotRead(
            subject=subject,
            message=f"{unread_text('Node', snapshot)}: Tonnage cannot tell whether its node {node} exists",
            remedy=unread_remedy("Node", snapshot),
            source="nodes of the snapshot",
            layer=Layer.SCHEDULER,
            kind="Node",
        )
    runs = pod.status.phase == "Running" or pod.status.terminating
    message = (
        f"its node {node} is gone: the pod garbage collector will remove it"
        if runs
        else f"its node {node} does not exist: no kubelet will start it"
    )
    remedy = "delete the pod so that its owner creates another"
    return NodeMissing(
        subject=subject,
        message=message,
        remedy=remedy,
        source="nodes, spec.nodeName",
        node=node,
    )
