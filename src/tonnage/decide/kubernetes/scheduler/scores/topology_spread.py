"""PodTopologySpread: soft constraints, and the default ones of pods that belong to a workload."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tonnage.decide.kubernetes.scheduler.filters.topology_spread import (
    constraints_of,
    counts_towards,
    matching_pods,
)
from tonnage.decide.kubernetes.scheduler.scoring import HIGHEST, Feasible
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Pod, SpreadConstraint

NAME: Final = "PodTopologySpread"
WEIGHT: Final = 2
_HOSTNAME: Final = "kubernetes.io/hostname"


def rate(pod: Pod, feasible: Feasible, view: ClusterView) -> Mapping[str, int] | None:
    """The emptier a node's domains, the better; skipped without soft constraints."""
    soft = tuple(c for c in constraints_of(pod, view) if not c.hard)
    if not soft:
        return None
    labels_needed = bool(pod.spread) or view.settings(pod).spread is not None
    ignored = {n for n, node in feasible.items() if labels_needed and not _has_all(node, soft)}
    rated = {name: node for name, node in feasible.items() if name not in ignored}
    parts = [_part(c, soft, pod, rated, view, labels_needed=labels_needed) for c in soft]
    raw = {name: math.floor(sum(part.get(name, 0.0) for part in parts) + 0.5) for name in rated}
    return {**dict.fromkeys(ignored, 0), **_emptiest_best(raw)}


def _part(
    constraint: SpreadConstraint,
    soft: tuple[SpreadConstraint, ...],
    pod: Pod,
    rated: Feasible,
    view: ClusterView,
    *,
    labels_needed: bool,
) -> dict[str, float]:
    """What one constraint adds to each node: its matching pods, weighed by the number of domains."""
    key = constraint.topology_key
    if key == _HOSTNAME:
        counts = {n: matching_pods(node, constraint.selector, pod.namespace) for n, node in rated.items()}
        weight = math.log(len(rated) + 2)
        return {
            n: counts[n] * weight + constraint.max_skew - 1
            for n, node in rated.items()
            if key in node.node.labels
        }
    domains = {node.node.labels.get(key, "") for node in rated.values()}
    by_domain = dict.fromkeys(domains, 0)
    for node in view.nodes.values():
        value = node.node.labels.get(key, "")
        counted = not labels_needed or _has_all(node, soft)
        if value in by_domain and counted and counts_towards(constraint, pod, node.node):
            by_domain[value] += matching_pods(node, constraint.selector, pod.namespace)
    weight = math.log(len(domains) + 2)
    return {
        n: by_domain[node.node.labels[key]] * weight + constraint.max_skew - 1
        for n, node in rated.items()
        if key in node.node.labels
    }


def _emptiest_best(raw: Mapping[str, int]) -> dict[str, int]:
    if not raw:
        return {}
    most, least = max(raw.values()), min(raw.values())
    if most == 0:
        return dict.fromkeys(raw, HIGHEST)
    return {name: HIGHEST * (most + least - value) // most for name, value in raw.items()}


def _has_all(node: NodeView, constraints: tuple[SpreadConstraint, ...]) -> bool:
    return all(c.topology_key in node.node.labels for c in constraints)
