"""TaintToleration: a node's NoSchedule and NoExecute taints must all be tolerated.

Newer schedulers no longer say which taint it was; the reasons here name every one of them.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.matching import untolerated
from tonnage.decide.kubernetes.scheduler.refusal import Check, PluginRefusal
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.selectors import Taint
from tonnage.model.reasons.pod.scheduling import TaintNotTolerated
from tonnage.model.reasons.reason import Reason

NAME: Final = "TaintToleration"
TEXT: Final = "node(s) had untolerated taint(s)"
EFFECTS: Final = ("NoSchedule", "NoExecute")
_OF_THE_CLUSTER: Final = "node.kubernetes.io/"
"""Taints under this prefix come and go with the node's state."""


def prepare(pod: Pod, view: ClusterView) -> Check | None:
    """Refuse nodes with a taint that the pod does not tolerate."""
    hidden = view.profile.hides_taints

    def check(node: NodeView) -> PluginRefusal | None:
        taints = untolerated(node.node.taints, pod.tolerations, EFFECTS)
        if not taints:
            return None
        text = TEXT if hidden else f"node(s) had untolerated taint {{{taints[0].key}: {taints[0].value}}}"
        reasons = tuple(_reason(node.name, taint) for taint in taints)
        return PluginRefusal(NAME, (text,), unresolvable=True, reasons=reasons)

    return check


def _reason(node: str, taint: Taint) -> Reason:
    passing = taint.key.startswith(_OF_THE_CLUSTER)
    return TaintNotTolerated(
        subject=f"Node {node}",
        message=f"taint {taint} is not tolerated",
        remedy=f"kubectl describe node {node} says why the cluster set it"
        if passing
        else f"tolerate {taint.key}, if this pod belongs on the node",
        source=NAME,
        lasting=not passing,
        key=taint.key,
        value=taint.value,
        effect=taint.effect,
    )
