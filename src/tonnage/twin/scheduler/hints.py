"""QueueingHintFn: which changes of nodes, pods and claims have a refused pod tried again.

Source: kube-scheduler 1.35, the events that each plugin registers, and its hints (SchedulerQueueingHints).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tonnage.decide.kubernetes.matching import (
    node_is_selected,
    pod_term_matches,
    selector_matches,
    tolerates,
    untolerated,
)
from tonnage.decide.kubernetes.requests import PODS, pod_requests
from tonnage.decide.kubernetes.scheduler.filters import (
    claims,
    node_affinity,
    node_name,
    node_unschedulable,
    pod_affinity,
    ports,
    resources,
    taints,
    topology_spread,
    volume_use,
    volumes,
)
from tonnage.decide.kubernetes.scheduler.scheduling import SchedulingDecision
from tonnage.model.kubernetes.cluster import Node, Pod, PodTerm, SpreadConstraint
from tonnage.wire.claims import ResourceClaim

GATES: Final = "SchedulingGates"
Nodes = Mapping[str, Callable[[Pod, Node | None, Node], bool]]
Pods = Mapping[str, Callable[[Pod, Pod | None, Pod | None], bool]]


def refused_by(decision: SchedulingDecision) -> frozenset[str]:
    """The plugins that refused the pod; none where something broke, or where there is no node."""
    if decision.failed:
        return frozenset()
    plugins = (refusal.plugin for refusals in decision.refusals.values() for refusal in refusals)
    return frozenset((*plugins, decision.halted_by)) - {""}


def pod_helps(plugins: frozenset[str], pod: Pod, before: Pod | None, after: Pod | None) -> bool:
    """Whether a pod that came to a node, changed or went may help, or a change of the refused pod itself."""
    return any(_PODS[name](pod, before, after) for name in plugins if name in _PODS)


def node_helps(plugins: frozenset[str], pod: Pod, before: Node | None, after: Node | None) -> bool:
    """Whether a node that came, went or changed may help."""
    if after is None:
        keys = {constraint.topology_key for constraint in _hard(pod)}
        return topology_spread.NAME in plugins and before is not None and keys <= before.labels.keys()
    if before is not None and _opens(before, after) and not plugins.isdisjoint(_WOKEN_BY_TAINTS):
        return True
    return any(_NODES[name](pod, before, after) for name in plugins if name in _NODES)


def claim_helps(pod: Pod, before: ResourceClaim | None, after: ResourceClaim | None) -> bool:
    """Whether a claim that came or changed may help: it is the pod's own, or what it had is free again."""
    if after is None:
        return False
    if before is not None and before.status.get("allocation") and not after.status.get("allocation"):
        return True
    own = pod.namespace == after.metadata.namespace and any(
        after.metadata.name in (entry.claim, entry.made) for entry in pod.claims
    )
    return own and (before is None or before.status != after.status)


# Pods


def _makes_room(pod: Pod, before: Pod | None, after: Pod | None) -> bool:
    """A pod is gone, or asks for less of what the refused one wants."""
    if before is None:
        return False
    if after is None:
        return True
    had, has = pod_requests(before), pod_requests(after)
    less = {name for name, amount in had.items() if has.get(name, 0) < amount}
    if after.uid == pod.uid:
        return bool(less)
    requested = (name for name, amount in pod_requests(pod).items() if amount)
    return bool(after.node_name) and not less.isdisjoint(requested)


def _frees_ports(pod: Pod, before: Pod | None, after: Pod | None) -> bool:
    held = before.host_ports if before is not None and after is None else ()
    return any(ports.clash(port, other) for port in held for other in pod.host_ports)


def _changes_spread(pod: Pod, before: Pod | None, after: Pod | None) -> bool:
    """A pod that a hard constraint counts comes or goes, or begins or ends to be counted."""
    for state in (before, after):
        counts = (
            state is None or state.uid == pod.uid or (state.node_name and state.namespace == pod.namespace)
        )
        if not counts:
            return False
    constraints = _hard(pod)
    if before is None or after is None:
        state = before or after
        return state is not None and any(selector_matches(c.selector, state.labels) for c in constraints)
    if after.uid == pod.uid and before.tolerations != after.tolerations:
        return any(constraint.honour_taints for constraint in constraints)
    return any(
        selector_matches(c.selector, before.labels) != selector_matches(c.selector, after.labels)
        for c in constraints
    )


def _changes_affinity(pod: Pod, before: Pod | None, after: Pod | None) -> bool:
    """A pod that is wanted comes, or one that is not wanted goes."""
    if any(state is not None and not state.node_name for state in (before, after)):
        return False
    attracting, avoided = pod.affinity.pods, pod.affinity.anti
    comes = _selects(attracting, pod, after) and not _selects(attracting, pod, before)
    return comes or (_selects(avoided, pod, before) and not _selects(avoided, pod, after))


def _selects(terms: Iterable[PodTerm], pod: Pod, other: Pod | None) -> bool:
    matches = [other is not None and pod_term_matches(term, pod, other, {}) for term in terms]
    return bool(matches) and all(matches)


def _frees_volume(pod: Pod, before: Pod | None, after: Pod | None) -> bool:
    if before is None or after is not None or before.namespace != pod.namespace:
        return False
    if volume_use.share_disk(pod, before):
        return True
    lasting = (
        {volume.claim for volume in holder.volumes if not volume.ephemeral} for holder in (pod, before)
    )
    return not next(lasting).isdisjoint(next(lasting))


def _detaches(_: Pod, before: Pod | None, after: Pod | None) -> bool:
    return before is not None and after is None and bool(before.volumes)


def _tolerates_more(pod: Pod, before: Pod | None, after: Pod | None) -> bool:
    if before is None or after is None or after.uid != pod.uid:
        return False
    return len(before.tolerations) != len(after.tolerations)


def _tolerates_cordon(pod: Pod, before: Pod | None, after: Pod | None) -> bool:
    if after is None or not _tolerates_more(pod, before, after):
        return False
    return any(tolerates(toleration, node_unschedulable.CORDON) for toleration in after.tolerations)


def _is_let_go(pod: Pod, before: Pod | None, after: Pod | None) -> bool:
    own = before is not None and after is not None and after.uid == pod.uid
    return own and bool(before and before.gates) and not (after and after.gates)


def _has_claims_made(pod: Pod, before: Pod | None, after: Pod | None) -> bool:
    if before is None or after is None or after.uid != pod.uid:
        return False
    return before.claims != after.claims


_PODS: Final[Pods] = {
    resources.NAME: _makes_room,
    ports.NAME: _frees_ports,
    topology_spread.NAME: _changes_spread,
    pod_affinity.NAME: _changes_affinity,
    volume_use.NAME: _frees_volume,
    volumes.LIMITS: _detaches,
    taints.NAME: _tolerates_more,
    node_unschedulable.NAME: _tolerates_cordon,
    claims.NAME: _has_claims_made,
    GATES: _is_let_go,
}
"""By plugin: whether a pod that came to a node (before None), changed, or went (after None) may help."""


# Nodes


def _has_room(pod: Pod, before: Node | None, after: Node) -> bool:
    """The node is large enough, and larger than it was in something that the pod wants."""
    requested = {name: amount for name, amount in pod_requests(pod).items() if amount > 0} | {PODS: 1}
    if any(after.allocatable.get(name, 0) < amount for name, amount in requested.items()):
        return False
    return before is None or any(
        after.allocatable.get(name, 0) > before.allocatable.get(name, 0) for name in requested
    )


def _is_selected(pod: Pod, before: Node | None, after: Node) -> bool:
    return node_is_selected(pod, after) and (before is None or not node_is_selected(pod, before))


def _is_tolerated(pod: Pod, before: Node | None, after: Node) -> bool:
    was = before is not None and not untolerated(before.taints, pod.tolerations, taints.EFFECTS)
    return not was and not untolerated(after.taints, pod.tolerations, taints.EFFECTS)


def _is_open(_: Pod, before: Node | None, after: Node) -> bool:
    return not after.unschedulable and (before is None or before.unschedulable)


def _is_new(_: Pod, before: Node | None, __: Node) -> bool:
    return before is None


def _has_other_labels(_: Pod, before: Node | None, after: Node) -> bool:
    return before is None or before.labels != after.labels


def _offers_otherwise(pod: Pod, before: Node | None, after: Node) -> bool:
    other = before is None or before.allocatable != after.allocatable
    return other or _has_other_labels(pod, before, after)


def _has_other_domains(pod: Pod, before: Node | None, after: Node) -> bool:
    keys = {constraint.topology_key for constraint in _hard(pod)}
    is_in = keys <= after.labels.keys()
    if before is None:
        return is_in
    if (keys <= before.labels.keys()) != is_in:
        return True
    moved = any(before.labels.get(key) != after.labels.get(key) for key in keys)
    return is_in and (moved or before.taints != after.taints)


def _is_elsewhere(pod: Pod, before: Node | None, after: Node) -> bool:
    """The node is in another domain of an affinity, or in none of an anti-affinity any more."""
    attracting = {term.topology_key for term in pod.affinity.pods}
    avoided = {term.topology_key for term in pod.affinity.anti}
    if before is None:
        return bool(avoided) or not attracting.isdisjoint(after.labels)
    moved = {key for key in attracting | avoided if before.labels.get(key) != after.labels.get(key)}
    return any(key in after.labels for key in moved & attracting) or any(
        key in before.labels for key in moved & avoided
    )


def _opens(before: Node, after: Node) -> bool:
    """Whether taints change, or the node is no longer closed: one kind of event."""
    return before.taints != after.taints or (before.unschedulable and not after.unschedulable)


def _hard(pod: Pod) -> tuple[SpreadConstraint, ...]:
    return tuple(constraint for constraint in pod.spread if constraint.hard)


_NODES: Final[Nodes] = {
    resources.NAME: _has_room,
    node_affinity.NAME: _is_selected,
    taints.NAME: _is_tolerated,
    node_unschedulable.NAME: _is_open,
    node_name.NAME: _is_new,
    ports.NAME: _is_new,
    volume_use.NAME: _is_new,
    topology_spread.NAME: _has_other_domains,
    pod_affinity.NAME: _is_elsewhere,
    volumes.NAME: _has_other_labels,
    volumes.ZONE: _has_other_labels,
    claims.NAME: _offers_otherwise,
}
"""By plugin: whether a node that came, or was another before, may help."""
_WOKEN_BY_TAINTS: Final = _NODES.keys() - {taints.NAME, node_unschedulable.NAME, topology_spread.NAME}
"""Plugins that hear of new nodes and have no hint on taints: every change of those wakes their pods."""
