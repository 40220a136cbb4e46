"""numFeasibleNodesToFind: which of the nodes that fit the scheduler rates, from 100 nodes on.

It asks nodes zone by zone in turn, begins where the last cycle ended, and stops when it has found enough; the
best of those gets the pod. Where a cycle begins cannot be known, so any beginning is allowed for.

Source: kube-scheduler 1.35 schedule_one.go (numFeasibleNodesToFind), backend/cache/node_tree.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tonnage.decide.kubernetes.scheduler.score_table import Scores
from tonnage.decide.kubernetes.scheduler.scores import node_affinity, pod_affinity, taints, topology_spread
from tonnage.decide.kubernetes.view import ClusterView

_COMPARING: Final = (taints.NAME, node_affinity.NAME, topology_spread.NAME, pod_affinity.NAME)
LEAST: Final = 100
_LEAST_PERCENT: Final = 5


def sample_size(nodes: int, percent: int = 0) -> int:
    """How many nodes that fit the scheduler looks for among so many; `percent` 0: none is configured.

    >>> [sample_size(nodes) for nodes in (99, 100, 1000, 5000, 10000)]
    [99, 100, 420, 500, 500]
    """
    if nodes < LEAST:
        return nodes
    percent = percent or max(_LEAST_PERCENT, 50 - nodes // 125)
    return max(LEAST, nodes * percent // 100)


def may_choose(order: Sequence[str], totals: Mapping[str, int], size: int) -> tuple[str, ...]:
    """The best of every `size` nodes that follow each other in the order and fit (have a total), in a circle.

    >>> may_choose("abcd", {"a": 1, "b": 3, "c": 2, "d": 2}, 2)
    ('b', 'c', 'd')
    """
    names = [name for name in order if name in totals]
    values = [totals[name] for name in names]
    if size >= len(names):
        best = max(values, default=0)
        return tuple(name for name, value in zip(names, values, strict=True) if value == best)
    after, before = _to_better(values), _to_better(values[::-1])[::-1]
    return tuple(name for name, a, b in zip(names, after, before, strict=True) if a + b > size)


def candidates(view: ClusterView, scores: Scores, percent: int = 0) -> tuple[str, ...]:
    """The nodes that may be chosen, in asking order, given the scores of all that fit.

    A score that compares nodes with each other depends on which ones are looked at. Where such a score tells
    nodes apart and only a part is looked at, any node that fits may be chosen.
    """
    totals, size = scores.totals, sample_size(len(view.nodes), percent)
    if size < len(totals) and any(scores.tells_apart(plugin) for plugin in _COMPARING):
        return tuple(name for name in view.asking_order if name in totals)
    return may_choose(view.asking_order, totals, size)


def _to_better(values: Sequence[int]) -> list[int]:
    """How many steps ahead in the circle something better stands; as many as there are where nothing does."""
    count = len(values)
    steps = [count] * count
    waiting: list[int] = []  # places for which nothing better was met yet, the worst last
    for end in range(2 * count):
        value = values[end % count]
        while waiting and values[waiting[-1]] < value:
            place = waiting.pop()
            steps[place] = end - place
        if end < count:
            waiting.append(end)
    return steps
