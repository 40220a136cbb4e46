"""NodeUnschedulable: a cordoned node takes no pods, except those that tolerate the cordon."""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.matching import tolerates
from tonnage.decide.kubernetes.scheduler.refusal import Check, PluginRefusal
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.selectors import Taint
from tonnage.model.reasons.pod.scheduling import NodeUnschedulable

NAME: Final = "NodeUnschedulable"
TEXT: Final = "node(s) were unschedulable"
CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def prepare(pod: Pod, _view: ClusterView) -> Check | None:
    """Refuse nodes with `spec.unschedulable`."""
    if any(tolerates(toleration, CORDON) for toleration in pod.tolerations):
        return None
    return _check


def _check(view: NodeView) -> PluginRefusal | None:
    if not view.node.unschedulable:
        return None
    reason = NodeUnschedulable(
        subject=f"Node {view.name}",
        by=view.node.cordon.by,
        at=view.node.cordon.at.isoformat() if view.node.cordon.at else None,
        work="",
        message="the node is cordoned (spec.unschedulable)",
        remedy=f"find out why it was cordoned, then: kubectl uncordon {view.name}",
        source=NAME,
    )
    return PluginRefusal(NAME, (TEXT,), unresolvable=True, reasons=(reason,))
