"""Which changes of the cluster may help a pod that was refused: a pod is not tried again for others.

Source: kube-scheduler 1.35, the events that each plugin registers, and its hints (SchedulerQueueingHints).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tonnage.decide.cluster.filters import (
    claims,
    node_affinity,
    node_name,
    node_unschedulable,
    pod_affinity,
    ports,
    resources,
    taints,
    topology_spread,
)
from tonnage.decide.cluster.matching import node_is_selected, untolerated
from tonnage.decide.cluster.requests import PODS, pod_requests
from tonnage.decide.cluster.scheduling import Decision
from tonnage.model.cluster import Node, Pod
from tonnage.wire.claims import ResourceClaim

ANY: Final[frozenset[str]] = frozenset()
"""Of a pod that no plugin refused: nobody knows what helps it."""
_WAIT_FOR_ENDS: Final = frozenset((resources.NAME, ports.NAME, topology_spread.NAME, pod_affinity.NAME))
_LOOK_AT_PODS: Final = frozenset((topology_spread.NAME, pod_affinity.NAME))


def refused_by(decision: Decision) -> frozenset[str]:
    """The plugins that refused the pod on some node."""
    return frozenset(refusal.plugin for refusals in decision.refusals.values() for refusal in refusals)


def end_helps(plugins: frozenset[str]) -> bool:
    """Whether the end of a pod that held something on a node may help."""
    return plugins == ANY or not _WAIT_FOR_ENDS.isdisjoint(plugins)


def arrival_helps(plugins: frozenset[str]) -> bool:
    """Whether a pod that comes to a node, or has other labels there, may help."""
    return not _LOOK_AT_PODS.isdisjoint(plugins)


def node_helps(plugins: frozenset[str], pod: Pod, before: Node | None, after: Node | None) -> bool:
    """Whether a node that came, went or changed may help."""
    if plugins == ANY:
        return True
    if after is None:
        return topology_spread.NAME in plugins
    return any(_HINTS[name](pod, before, after) for name in plugins if name in _HINTS)


def claim_helps(pod: Pod, before: ResourceClaim | None, after: ResourceClaim | None) -> bool:
    """Whether a claim that came or changed may help: it is the pod's own, or what it had is free again."""
    if after is None:
        return False
    if before is not None and before.status.get("allocation") and not after.status.get("allocation"):
        return bool(pod.claims)
    mine = pod.namespace == after.metadata.namespace and any(
        after.metadata.name in (entry.claim, entry.made) for entry in pod.claims
    )
    return mine and (before is None or before.status != after.status)


def _has_room(pod: Pod, before: Node | None, after: Node) -> bool:
    """The node is large enough, and larger than it was in something that the pod wants."""
    wanted = {name: amount for name, amount in pod_requests(pod).items() if amount > 0} | {PODS: 1}
    if any(after.allocatable.get(name, 0) < amount for name, amount in wanted.items()):
        return False
    return before is None or any(
        after.allocatable.get(name, 0) > before.allocatable.get(name, 0) for name in wanted
    )


def _is_selected(pod: Pod, before: Node | None, after: Node) -> bool:
    return node_is_selected(pod, after) and (before is None or not node_is_selected(pod, before))


def _is_tolerated(pod: Pod, before: Node | None, after: Node) -> bool:
    changed = before is None or before.taints != after.taints
    return changed and not untolerated(after.taints, pod.tolerations, taints.EFFECTS)


def _is_open(_: Pod, before: Node | None, after: Node) -> bool:
    return not after.unschedulable and (before is None or before.unschedulable)


def _is_new(_: Pod, before: Node | None, __: Node) -> bool:
    return before is None


def _has_other_labels(_: Pod, before: Node | None, after: Node) -> bool:
    return before is None or before.labels != after.labels


def _has_other_domains(pod: Pod, before: Node | None, after: Node) -> bool:
    return before is None or before.taints != after.taints or _has_other_labels(pod, before, after)


_HINTS: Final[Mapping[str, Callable[[Pod, Node | None, Node], bool]]] = {
    resources.NAME: _has_room,
    node_affinity.NAME: _is_selected,
    taints.NAME: _is_tolerated,
    node_unschedulable.NAME: _is_open,
    node_name.NAME: _is_new,
    ports.NAME: _is_new,
    topology_spread.NAME: _has_other_domains,
    pod_affinity.NAME: _has_other_labels,
    claims.NAME: _has_other_labels,
}
"""By plugin: whether a node that came, or was another before, may help."""
