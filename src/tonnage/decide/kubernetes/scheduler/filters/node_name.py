"""NodeName: a pod that names its node goes there or nowhere."""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.scheduler.refusal import Check, PluginRefusal
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.reasons.pod.scheduling import NodeNameMismatch

NAME: Final = "NodeName"
TEXT: Final = "node(s) didn't match the requested node name"


def prepare(pod: Pod, _view: ClusterView) -> Check | None:
    """Refuse all nodes but `spec.nodeName`."""
    node_name = pod.node_name

    def check(view: NodeView) -> PluginRefusal | None:
        if view.name == node_name:
            return None
        reason = NodeNameMismatch(
            subject=f"Node {view.name}",
            message=f"the pod names another node in spec.nodeName: {node_name}",
            remedy="leave spec.nodeName out",
            source=NAME,
            wanted=node_name,
        )
        return PluginRefusal(NAME, (TEXT,), unresolvable=True, reasons=(reason,))

    return check if node_name else None
