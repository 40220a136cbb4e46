"""From 100 nodes on kube-scheduler rates a part of the nodes that fit: which ones it may then choose.

It asks nodes zone by zone in turn, begins where the last cycle ended, and stops when it has found enough; the
best of those gets the pod. Where a cycle begins cannot be known, so any beginning is allowed for.

Source: kube-scheduler 1.35 schedule_one.go (numFeasibleNodesToFind), backend/cache/node_tree.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Final, TypeAlias

from tonnage.decide.cluster.scheduling import TOTAL
from tonnage.decide.cluster.scores import node_affinity, pod_affinity, taints, topology_spread
from tonnage.decide.cluster.view import View
from tonnage.model.cluster import Node

Scores: TypeAlias = Mapping[str, Mapping[str, int]]
"""Weighted scores by node and plugin, with their `total`."""

_COMPARING: Final = (taints.NAME, node_affinity.NAME, topology_spread.NAME, pod_affinity.NAME)
LEAST: Final = 100
_LEAST_PERCENT: Final = 5
_REGION: Final = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_ZONE: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")


def sample_size(nodes: int) -> int:
    """How many nodes that fit the scheduler looks for among so many, with no percentage configured.

    >>> [sample_size(nodes) for nodes in (99, 100, 1000, 5000, 10000)]
    [99, 100, 420, 500, 500]
    """
    if nodes < LEAST:
        return nodes
    percent = max(_LEAST_PERCENT, 50 - nodes // 125)
    return max(LEAST, nodes * percent // 100)


def asking_order(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Node names in turns over their zones; zones and nodes in the order given."""
    zones: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        zones.setdefault((_first(node, _REGION), _first(node, _ZONE)), []).append(node.name)
    turns = zip_longest(*zones.values())
    return tuple(name for turn in turns for name in turn if name is not None)


def may_choose(order: Sequence[str], totals: Mapping[str, int], size: int) -> tuple[str, ...]:
    """The best of every `size` nodes that follow each other in the order and fit (have a total), in a circle.

    >>> may_choose("abcd", {"a": 1, "b": 3, "c": 2, "d": 2}, 2)
    ('b', 'c', 'd')
    """
    names = [name for name in order if name in totals]
    if size >= len(names):
        best = max(totals.values(), default=0)
        return tuple(name for name in names if totals[name] == best)
    found: set[str] = set()
    best_of: deque[int] = deque()  # positions of what may be the best of a window, the best first
    count = len(names)
    for end in range(count + size - 1):
        total = totals[names[end % count]]
        while best_of and totals[names[best_of[-1] % count]] < total:
            best_of.pop()
        best_of.append(end)
        if best_of[0] <= end - size:
            best_of.popleft()
        if end >= size - 1:
            found |= _equals(best_of, names, totals)
    return tuple(name for name in names if name in found)


def candidates(view: View, scores: Scores) -> tuple[str, ...]:
    """The nodes that may be chosen, in asking order, given the scores of all that fit.

    A score that compares nodes with each other depends on which ones are looked at. Where such a score tells
    nodes apart and only a part is looked at, any node that fits may be chosen.
    """
    order = asking_order(node.node for node in view.nodes.values())
    size = sample_size(len(order))
    totals = {name: row[TOTAL] for name, row in scores.items()}
    if size < len(totals) and any(len({row.get(one) for row in scores.values()}) > 1 for one in _COMPARING):
        return tuple(name for name in order if name in totals)
    return may_choose(order, totals, size)


def _equals(best_of: deque[int], names: Sequence[str], totals: Mapping[str, int]) -> set[str]:
    """The names at the front that share the best total."""
    best = totals[names[best_of[0] % len(names)]]
    found: set[str] = set()
    for position in best_of:
        name = names[position % len(names)]
        if totals[name] != best:
            break
        found.add(name)
    return found


def _first(node: Node, keys: tuple[str, ...]) -> str:
    return next((node.labels[key] for key in keys if key in node.labels), "")
