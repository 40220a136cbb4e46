"""What pods hold, as columns over the nodes of a `Columns`. The only part of a fleet that changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.decide.kubernetes.matching import selector_matches
from tonnage.decide.kubernetes.requests import pod_requests, scored_requests
from tonnage.decide.kubernetes.scheduler.fleet.columns import MOST, Amounts, Columns
from tonnage.decide.kubernetes.view import NodeView
from tonnage.model.kubernetes.cluster import HostPort, Pod, PodTerm, Requests
from tonnage.model.kubernetes.selectors import Labels

Counts: TypeAlias = NDArray[np.int64]
ByRow: TypeAlias = dict[int, int]
"""How many by row; rows that are not there have none."""
Matches: TypeAlias = Callable[[str, Labels], bool]
"""Whether pods of this namespace with these labels count."""

FORBIDS: Final = 0
"""The kind of a required anti-affinity term; the other kinds are the weights with which a term attracts."""
REQUIRED_WEIGHT: Final = 1
"""What a running pod's required affinity for another adds to a node (hardPodAffinityWeight)."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a pod asks: in sum, and CPU and memory as scores count what already runs (`scored_*`)."""

    requests: Requests
    scored_cpu: int
    scored_memory: int


def need_of(pod: Pod) -> Need:
    """What counts on a node once the pod is there."""
    requests = {resource: min(amount, MOST) for resource, amount in pod_requests(pod).items()}
    cpu, memory = scored_requests(pod, pod_level=True)
    return Need(requests, min(cpu, MOST), min(memory, MOST))


@dataclass(frozen=True, slots=True)
class OwnedTerm:
    """A term of pods that run: pods of this namespace have it, with this weight, or it forbids."""

    kind: int
    namespace: str
    term: PodTerm


def term_selects(
    term: PodTerm,
    owner_namespace: str,
    namespace: str,
    labels: Labels,
    namespace_labels: Labels,
    *,
    overlooks: bool = False,
) -> bool:
    """Whether a term of a pod of the one namespace selects a pod of the other.

    `overlooks`: labels that a namespace has do not keep out what the term chooses by labels that are missing.
    """
    if term.selector is None:
        return False
    named = term.namespaces
    if not named and term.namespace_selector is None:
        named = (owner_namespace,)
    chooser = term.namespace_selector
    in_scope = namespace in named or selector_matches(chooser, namespace_labels)
    if not in_scope and overlooks:
        in_scope = selector_matches(chooser, {})
    return in_scope and selector_matches(term.selector, labels)


@dataclass(frozen=True, slots=True)
class _Kin:
    """Pods that no selector can tell apart."""

    namespace: str
    labels: frozenset[tuple[str, str]]
    terminating: bool


@dataclass(frozen=True, slots=True)
class _Census:
    """A standing count: which pods it counts, and how many each node has."""

    matches: Matches
    with_terminating: bool
    counts: Counts

    def counts_kin(self, kin: _Kin) -> bool:
        if kin.terminating and not self.with_terminating:
            return False
        return self.matches(kin.namespace, dict(kin.labels))


@dataclass(slots=True)
class Holdings:
    """Sums and counts by row. `changed` lists every row that something came to, in order.

    Pods are looked at one by one (`ports`, `terms`, `counts`) only once somebody asks what that needs.
    """

    columns: Columns
    requested: dict[str, Amounts]
    scored_cpu: Amounts
    scored_memory: Amounts
    pods: Counts
    ports: dict[HostPort, ByRow] = field(default_factory=dict)
    terms: dict[OwnedTerm, ByRow] = field(default_factory=dict)
    changed: list[int] = field(default_factory=list)
    uncounted: list[tuple[int, tuple[Pod, ...]]] = field(default_factory=list)
    """Pods that are in no count of kin yet."""
    _kin: dict[_Kin, ByRow] = field(default_factory=dict)
    _censuses: dict[Hashable, _Census] = field(default_factory=dict)
    _counted_by: dict[_Kin, list[_Census]] = field(default_factory=dict)
    _kin_of: dict[tuple[str, int, bool], tuple[Labels, _Kin]] = field(default_factory=dict)
    """By namespace and identity of the labels, which pods of a workload share; the labels are kept alive."""
    _kin_in: dict[str, list[_Kin]] = field(default_factory=dict)
    """By namespace."""

    def used(self, resource: str) -> Amounts:
        """How much of a resource the pods of each node have asked for."""
        column = self.requested.get(resource)
        if column is None:
            column = self.requested[resource] = np.zeros(len(self.columns), np.int64)
        return column

    def add(self, row: int, pod: Pod, need: Need) -> None:
        """A pod comes to a node."""
        for resource, amount in need.requests.items():
            self.used(resource)[row] += amount
        self.scored_cpu[row] += need.scored_cpu
        self.scored_memory[row] += need.scored_memory
        self.pods[row] += 1
        self.note(row, pod)
        if self._censuses:
            for census in self._censuses_of(self._count(row, pod)):
                census.counts[row] += 1
        else:
            self.uncounted.append((row, (pod,)))
        self.changed.append(row)

    def counts(
        self, key: Hashable, matches: Matches, *, terminating: bool, namespace: str | None = None
    ) -> Counts:
        """Pods by row that match; kept up to date under `key`, which must tell all questions apart.

        With a namespace, pods of that one alone are asked about.
        """
        census = self._censuses.get(key)
        if census is None:
            for row, pods in self.uncounted:
                for pod in pods:
                    self._count(row, pod)
            self.uncounted.clear()
            census = _Census(matches, terminating, np.zeros(len(self.columns), np.int64))
            for kin in self._kin if namespace is None else self._kin_in.get(namespace, ()):
                if census.counts_kin(kin):
                    rows = self._kin[kin]
                    census.counts[list(rows)] += list(rows.values())
            self._censuses[key] = census
            for kin, counting in self._counted_by.items():
                if census.counts_kin(kin):
                    counting.append(census)
        return census.counts

    def forget(self, most: int) -> None:
        """Of the counts that are kept up to date, keep the latest so many; others are counted again."""
        if len(self._censuses) > most:
            for key in [*self._censuses][:-most]:
                del self._censuses[key]
            self._counted_by.clear()

    def fork(self) -> Holdings:
        """The same, to be changed on its own."""
        return replace(
            self,
            requested={resource: column.copy() for resource, column in self.requested.items()},
            scored_cpu=self.scored_cpu.copy(),
            scored_memory=self.scored_memory.copy(),
            pods=self.pods.copy(),
            ports={port: dict(rows) for port, rows in self.ports.items()},
            terms={term: dict(rows) for term, rows in self.terms.items()},
            changed=[],
            uncounted=list(self.uncounted),
            _kin={kin: dict(rows) for kin, rows in self._kin.items()},
            _kin_of=dict(self._kin_of),
            _kin_in={namespace: list(kin) for namespace, kin in self._kin_in.items()},
            _censuses={key: replace(c, counts=c.counts.copy()) for key, c in self._censuses.items()},
            _counted_by={},
        )

    def note(self, row: int, pod: Pod) -> None:
        """What pods have to keep away from, or are drawn to, once this one is there."""
        for port in pod.host_ports:
            _one_more(self.ports.setdefault(port, {}), row)
        for kind, term in _terms_of(pod):
            _one_more(self.terms.setdefault(OwnedTerm(kind, pod.namespace, term), {}), row)

    def _count(self, row: int, pod: Pod) -> _Kin:
        key = pod.namespace, id(pod.labels), pod.status.terminating
        cached = self._kin_of.get(key)
        if cached is None:
            kin = _Kin(pod.namespace, frozenset(pod.labels.items()), pod.status.terminating)
            if kin not in self._kin:
                self._kin[kin] = {}
                self._kin_in.setdefault(pod.namespace, []).append(kin)
            cached = self._kin_of[key] = pod.labels, kin
        _one_more(self._kin[cached[1]], row)
        return cached[1]

    def _censuses_of(self, kin: _Kin) -> Iterable[_Census]:
        censuses = self._counted_by.get(kin)
        if censuses is None:
            censuses = [census for census in self._censuses.values() if census.counts_kin(kin)]
            self._counted_by[kin] = censuses
        return censuses


def holdings_of(columns: Columns, views: Mapping[str, NodeView]) -> Holdings:
    """What the pods of a view hold."""
    count = len(columns)
    nodes = [views[name] for name in columns.names]
    requested: dict[str, Amounts] = {}
    for row, node in enumerate(nodes):
        for resource, amount in node.requested.items():
            if resource not in requested:
                requested[resource] = np.zeros(count, np.int64)
            requested[resource][row] = min(amount, MOST)
    holdings = Holdings(
        columns,
        requested,
        np.fromiter((min(node.scored_cpu, MOST) for node in nodes), np.int64, count),
        np.fromiter((min(node.scored_memory, MOST) for node in nodes), np.int64, count),
        np.fromiter((len(node.pods) for node in nodes), np.int64, count),
        uncounted=[(row, node.pods) for row, node in enumerate(nodes)],
    )
    for row, node in enumerate(nodes):
        for pod in node.pods:
            own = pod.affinity
            if pod.host_ports or own.anti or own.pods or own.pods_preferred:
                holdings.note(row, pod)
    return holdings


def _terms_of(pod: Pod) -> Iterator[tuple[int, PodTerm]]:
    affinity = pod.affinity
    for term in affinity.anti:
        yield FORBIDS, term
    for term in affinity.pods:
        yield REQUIRED_WEIGHT, term
    for preferred in affinity.pods_preferred:
        if preferred.weight:
            yield preferred.weight, preferred.term


def _one_more(rows: ByRow, row: int) -> None:
    rows[row] = rows.get(row, 0) + 1
