"""The pods of all nodes one by one, in the order in which preemption spares them. They never change."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from tonnage.decide.kubernetes.scheduler.fleet.columns import Amounts, Columns, Mask, by_resource
from tonnage.decide.kubernetes.scheduler.fleet.filters import Rows
from tonnage.decide.kubernetes.scheduler.fleet.holdings import Matches, OwnedTerm
from tonnage.decide.kubernetes.scheduler.preemption import importance
from tonnage.decide.kubernetes.view import NodeView


@dataclass(slots=True)
class Occupants:
    """A place a pod: the pods of the first row, the most important first, then those of the next."""

    pods: NDArray[np.object_]
    """Pods; a tuple of so many, while it is young, holds up an answer in which garbage is searched for."""
    rows: Rows
    priorities: NDArray[np.int64]
    least: NDArray[np.int64]
    """By row: the lowest priority there; the highest number where there is no pod."""
    earliest: NDArray[np.int64]
    """The order of their start times, of equal ones the same; those that have not started come last."""
    _requests: dict[str, Amounts]
    """By resource: what pods ask, of several that share it once; and by pod which of these."""
    _shape: Rows
    _numbers: dict[Hashable, NDArray[np.int64]] = field(default_factory=dict)

    def asking(self, resource: str) -> Amounts:
        """How much of a resource each asks for."""
        amounts = self._requests.get(resource)
        return np.zeros(len(self.pods), np.int64) if amounts is None else amounts[self._shape]

    def counted(self, resource: str) -> Amounts:
        """By row: how many ask for some of a resource."""
        asking = self.rows[self.asking(resource) > 0]
        return np.bincount(asking, minlength=len(self.least)).astype(np.int64)

    def where(self, matches: Matches, *, terminating: bool = True) -> Mask:
        """Those that match, without those that terminate if so asked."""
        verdicts: dict[tuple[str, int], bool] = {}
        mask = np.zeros(len(self.pods), bool)
        for place, pod in enumerate(self.pods):
            kin = pod.namespace, id(pod.labels)  # pods of a workload share their labels
            if kin not in verdicts:
                verdicts[kin] = matches(pod.namespace, pod.labels)
            mask[place] = verdicts[kin] and (terminating or not pod.status.terminating)
        return mask

    def with_ports(self) -> Rows:
        """The places of those that hold ports of their node."""
        return self._once(("ports",), lambda: _places(bool(pod.host_ports) for pod in self.pods))

    def with_term(self, owned: OwnedTerm) -> NDArray[np.int64]:
        """How often each has a term that forbids."""
        counts = np.zeros(len(self.pods), np.int64)
        for place in self._once(
            ("anti-affinity",), lambda: _places(bool(p.affinity.anti) for p in self.pods)
        ).tolist():
            pod = self.pods[place]
            counts[place] = pod.affinity.anti.count(owned.term) if pod.namespace == owned.namespace else 0
        return counts

    def _once(self, key: Hashable, made: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        if key not in self._numbers:
            self._numbers[key] = made()
        return self._numbers[key]


def occupants_of(columns: Columns, views: Mapping[str, NodeView]) -> Occupants:
    """The pods of a view."""
    nodes = [views[name] for name in columns.names]
    there = [
        pair
        for node in nodes
        for pair in sorted(zip(node.pods, node.amounts, strict=True), key=lambda pair: importance(pair[0]))
    ]
    lowest = np.iinfo(np.int64).max
    shapes: dict[int, int] = {}
    shape = [shapes.setdefault(id(amounts), place) for place, (_, amounts) in enumerate(there)]
    kinds, which = np.unique(np.array(shape, np.intp), return_inverse=True)
    return Occupants(
        np.fromiter((pod for pod, _ in there), object, len(there)),
        np.repeat(np.arange(len(nodes)), [len(node.pods) for node in nodes]),
        np.fromiter((pod.priority for pod, _ in there), np.int64, len(there)),
        np.array([lowest if n.least_priority is None else n.least_priority for n in nodes], np.int64),
        _ranks(pod.status.start for pod, _ in there),
        by_resource([there[place][1] for place in kinds.tolist()]),
        which,
    )


def _ranks(starts: Iterable[datetime | None]) -> NDArray[np.int64]:
    """By pod, the place of its start among all starts."""
    moments = np.fromiter((start.timestamp() if start else math.inf for start in starts), float)
    return np.unique(moments, return_inverse=True)[1]


def _places(flags: Iterable[bool]) -> NDArray[np.int64]:
    return np.flatnonzero(np.fromiter(flags, bool))
