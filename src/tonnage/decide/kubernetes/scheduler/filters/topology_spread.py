"""PodTopologySpread: hard constraints on how unevenly matching pods may lie over a topology."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.matching import node_is_selected, selector_matches, untolerated
from tonnage.decide.kubernetes.scheduler.refusal import Check, PluginRefusal
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Node, Pod, SpreadConstraint
from tonnage.model.kubernetes.scheduler_profile import DefaultSpread
from tonnage.model.kubernetes.selectors import LabelSelector, Requirement
from tonnage.model.reasons.pod.scheduling import TopologyLabelMissing, TopologySkew

NAME: Final = "PodTopologySpread"
SKEWED: Final = "node(s) didn't match pod topology spread constraints"
_OF_THE_CLUSTER: Final = (
    DefaultSpread("kubernetes.io/hostname", 3, hard=False),
    DefaultSpread("topology.kubernetes.io/zone", 5, hard=False),
)
UNLABELLED: Final = f"{SKEWED} (missing required label)"


@dataclass(frozen=True, slots=True)
class _Domains:
    """Matching pods per value of a constraint's topology key."""

    constraint: SpreadConstraint
    counts: dict[str, int]
    self_match: int

    @property
    def too_few(self) -> bool:
        """Whether fewer domains are there than are wanted, so that the least counts as none."""
        return len(self.counts) < self.constraint.min_domains

    @property
    def least(self) -> int:
        return 0 if self.too_few else min(self.counts.values(), default=0)


def prepare(pod: Pod, view: ClusterView) -> Check | None:
    """Refuse nodes that would bring a hard constraint's skew above its limit."""
    constraints = constraints_of(pod, view) if pod.spread or view.settings(pod).spread else ()
    hard = tuple(c for c in constraints if c.hard)
    domains = [_domains_of(c, hard, pod, view) for c in hard]

    def check(node: NodeView) -> PluginRefusal | None:
        for domain in domains:
            key = domain.constraint.topology_key
            value = node.node.labels.get(key)
            if value is None:
                return _unlabelled(node.name, key)
            skew = domain.counts.get(value, 0) + domain.self_match - domain.least
            if skew > domain.constraint.max_skew:
                return _skewed(node.name, domain, value, skew)
        return None

    return check if hard else None


def constraints_of(pod: Pod, view: ClusterView) -> tuple[SpreadConstraint, ...]:
    """The pod's own constraints, else the default ones of a pod that a Service selects or a set owns."""
    if pod.spread:
        return pod.spread
    own = view.settings(pod).spread
    defaults = _OF_THE_CLUSTER if own is None else own
    if not defaults:
        return ()
    requirements: list[Requirement] = []
    for workload in view.snapshot.selectors:
        if workload.namespace != pod.namespace:
            continue
        serves = workload.kind == "Service" and selector_matches(workload.selector, pod.labels)
        owns = pod.owner is not None and (workload.kind, workload.name) == (pod.owner.kind, pod.owner.name)
        if serves or owns:
            requirements += workload.selector.requirements
    if not requirements:
        return ()
    selector = LabelSelector(tuple(requirements))
    return tuple(SpreadConstraint(d.topology_key, d.max_skew, d.hard, selector) for d in defaults)


def counts_towards(constraint: SpreadConstraint, pod: Pod, node: Node) -> bool:
    """Whether a node's pods count, by the constraint's inclusion policies."""
    if constraint.honour_affinity and not node_is_selected(pod, node):
        return False
    blocking = constraint.honour_taints and untolerated(
        node.taints, pod.tolerations, ("NoSchedule", "NoExecute")
    )
    return not blocking


def matching_pods(view: NodeView, selector: LabelSelector | None, namespace: str) -> int:
    """Pods on a node that a constraint counts: none for an empty selector, never terminating ones."""
    if selector is None or not selector.requirements:
        return 0
    return sum(
        1
        for pod in view.pods
        if pod.namespace == namespace
        and not pod.status.terminating
        and selector_matches(selector, pod.labels)
    )


def _counted(node: NodeView, selector: LabelSelector | None, namespace: str) -> int:
    """Pods on a node that a hard constraint counts.

    Those that are only thought away or to it count without regard to whether they leave, or how the selector
    selects everything: the scheduler counts them off and on another way than it counts at first.
    """
    origin = node.origin
    if origin is None:
        return matching_pods(node, selector, namespace)
    before, now = {pod.key for pod in origin.pods}, {pod.key for pod in node.pods}
    come = [pod for pod in node.pods if pod.key not in before]
    gone = [pod for pod in origin.pods if pod.key not in now]
    change = sum(
        sign * sum(p.namespace == namespace and selector_matches(selector, p.labels) for p in part)
        for sign, part in ((1, come), (-1, gone))
    )
    return matching_pods(origin, selector, namespace) + change


def _domains_of(
    constraint: SpreadConstraint, hard: tuple[SpreadConstraint, ...], pod: Pod, view: ClusterView
) -> _Domains:
    counts: dict[str, int] = {}
    for node in view.nodes.values():
        labels = node.node.labels
        if all(c.topology_key in labels for c in hard) and counts_towards(constraint, pod, node.node):
            value = labels[constraint.topology_key]
            counts[value] = counts.get(value, 0) + _counted(node, constraint.selector, pod.namespace)
    return _Domains(constraint, counts, int(selector_matches(constraint.selector, pod.labels)))


def _unlabelled(node: str, key: str) -> PluginRefusal:
    reason = TopologyLabelMissing(
        subject=f"Node {node}",
        message=f"the node lacks the label {key}, over which the pod must be spread",
        remedy=f"label the node with {key}",
        source=NAME,
        key=key,
    )
    return PluginRefusal(NAME, (UNLABELLED,), unresolvable=True, reasons=(reason,))


def _skewed(node: str, domains: _Domains, value: str, skew: int) -> PluginRefusal:
    constraint, count, least = domains.constraint, domains.counts.get(value, 0), domains.least
    emptiest, remedy = f"the emptiest domain {least}", "make room in the emptier domains"
    if domains.too_few:
        least_domains, there = constraint.min_domains, len(domains.counts)
        emptiest = f"the minimum counts as 0, for minDomains wants {least_domains} domains and {there} count"
        remedy = f"lower minDomains or add nodes with another {constraint.topology_key}"
    ends = "one more exceeds" if domains.self_match else "which exceeds"
    reason = TopologySkew(
        subject=f"Node {node}",
        message=f"{constraint.topology_key}={value} has {count} matching pods, {emptiest}; "
        f"{ends} maxSkew {constraint.max_skew}",
        remedy=f"{remedy}, raise maxSkew, or use ScheduleAnyway",
        source=NAME,
        key=constraint.topology_key,
        value=value,
        count=count,
        least=least,
        max_skew=constraint.max_skew,
        skew=skew,
        min_domains=constraint.min_domains if domains.too_few else None,
        domains=len(domains.counts) if domains.too_few else None,
    )
    return PluginRefusal(NAME, (SKEWED,), unresolvable=False, reasons=(reason,))
