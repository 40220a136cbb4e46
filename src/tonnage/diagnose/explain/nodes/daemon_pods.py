"""Why no node is one for the pods of a DaemonSet: its controller looks at name, labels and taints alone.

Source: k8s.io/kubernetes/pkg/controller/daemon, NodeShouldRunDaemonPod and its tolerations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.diagnose.explain.nodes.verdicts import NodeVerdicts
from tonnage.diagnose.remedies.edits_by_reason import edits_for
from tonnage.diagnose.remedies.patch import patch_of
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.selectors import Toleration
from tonnage.model.name_lists import listed
from tonnage.model.reasons.pod.scheduling import NodeAffinityMismatch, TaintNotTolerated
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Remedy

_MOST_ASKED: Final = 64
_MOST_SENTENCES: Final = 3
_EVERYWHERE: Final = tuple(
    Toleration(f"node.kubernetes.io/{name}", "Exists", "", effect)
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)


def why_none(pod: Pod, view: ClusterView) -> str:
    """What keeps the pods from the nodes, those that say the same together; empty when nothing is seen."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, reasons in _refused(pod, view):
        groups.setdefault(tuple(reason.message for reason in reasons), []).append(name)
    sentences = [f"{listed(names)}: {', '.join(phrases)}" for phrases, names in groups.items() if phrases]
    more = "; …" if len(sentences) > _MOST_SENTENCES else ""
    return "; ".join(sentences[:_MOST_SENTENCES]) + more


def ways_to_some(pod: Pod, view: ClusterView) -> Iterator[Remedy]:
    """Changes with which the controller makes a pod for a node, each tried on its rules; no two alike."""
    by_action: dict[str, Remedy] = {}
    for name, reasons in _refused(pod, view):
        edits = edits_for(pod, view.nodes[name], reasons, view.snapshot.now) if reasons else None
        if not edits:
            continue
        changed, cluster = pod, view
        for edit in edits:
            changed, cluster = edit.on_pod(changed), edit.on_view(cluster)
        if _keeping_out(daemon_pod(changed), cluster.nodes[name], cluster):
            continue
        action = "; and ".join(edit.action for edit in edits)
        by_action.setdefault(action, Remedy(action, f"a pod is created for {name}", patch_of(pod, changed)))
    yield from islice(by_action.values(), _MOST_SENTENCES)


def daemon_nodes(pod: Pod, view: ClusterView) -> Iterator[str]:
    """Names of the nodes for which the controller makes a pod."""
    daemon = daemon_pod(pod)
    return (name for name, node in view.nodes.items() if not _keeping_out(daemon, node, view))


def _refused(pod: Pod, view: ClusterView) -> Iterator[tuple[str, tuple[Reason, ...]]]:
    daemon = daemon_pod(pod)
    for name in islice(view.nodes, _MOST_ASKED):
        yield name, _keeping_out(daemon, view.nodes[name], view)


def _keeping_out(daemon: Pod, node: NodeView, view: ClusterView) -> tuple[Reason, ...]:
    verdict = NodeVerdicts(daemon, view).of(node.name)
    return tuple(
        reason for reason in verdict.reasons if isinstance(reason, TaintNotTolerated | NodeAffinityMismatch)
    )


def daemon_pod(pod: Pod) -> Pod:
    """The pod as its controller makes it, with what every daemon tolerates."""
    return replace(pod, tolerations=(*pod.tolerations, *_EVERYWHERE))
