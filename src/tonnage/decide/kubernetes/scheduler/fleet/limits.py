"""What keeps a pod from a row because of pods that are there, as sums: each pod that goes makes them smaller.

A limit is looked at row by row, as if only that row's pods went. Spreading and affinity count a whole domain,
so what a row's pods give is taken from its domain's sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tonnage.decide.kubernetes.matching import selector_matches
from tonnage.decide.kubernetes.requests import PODS
from tonnage.decide.kubernetes.scheduler.filters import ports, resources
from tonnage.decide.kubernetes.scheduler.fleet.columns import Amounts, Mask
from tonnage.decide.kubernetes.scheduler.fleet.filters import (
    NOT_BESIDE,
    NOT_WANTED,
    NOT_WITH,
    PORTS_TAKEN,
    SKEWED,
    UNLABELLED,
    RefusalKind,
    Rows,
    counted,
)
from tonnage.decide.kubernetes.scheduler.fleet.holdings import FORBIDS, Counts, Holdings, Need
from tonnage.decide.kubernetes.scheduler.fleet.occupants import Occupants
from tonnage.decide.kubernetes.scheduler.fleet.topology_filters import Neighbours, by_domain, counting_nodes
from tonnage.model.kubernetes.cluster import Pod, PodTerm, SpreadConstraint

_NO_LIMIT: Final = 2**62


class RowLimit(Protocol):
    """Something that a row may have too much of, or too little."""

    @property
    def kind(self) -> RefusalKind:
        """How it refuses."""
        ...

    @property
    def domains(self) -> NDArray[np.int64]:
        """By row: a number for what the refusal says of it; equal where it says the same."""
        ...

    def clear(self, rows: Rows, places: Rows) -> None:
        """These pods go, each from its row; a row may stand there several times."""
        ...

    def move(self, rows: Rows, places: Rows, sign: int) -> None:
        """These pods come (1) or go (-1), each to or from a row of its own."""
        ...

    def exceeded(self, rows: Rows) -> Mask:
        """Which of the rows refuse the pod."""
        ...


@dataclass(slots=True)
class Sum:
    """A row refuses when it has more than `most`. `used` is by row, `gives` by occupant."""

    kind: RefusalKind
    most: Amounts
    used: Amounts
    gives: Amounts
    domains: NDArray[np.int64]

    def clear(self, rows: Rows, places: Rows) -> None:
        np.subtract.at(self.used, rows, self.gives[places])

    def move(self, rows: Rows, places: Rows, sign: int) -> None:
        self.used[rows] += sign * self.gives[places]

    def exceeded(self, rows: Rows) -> Mask:
        over: Mask = self.used[rows] > self.most[rows]
        return over


@dataclass(slots=True)
class Together:
    """Required affinity: some pod in the domain of each term, or none anywhere for the first of its kind."""

    kind: RefusalKind
    labelled: Mask
    first: bool
    """Whether the pod itself is one that it must be with."""
    sums: list[Sum]
    """A term each: pods in the row's domain; `most` means nothing."""
    anywhere: Counts
    """By row: pods in any domain of any term, when that row's pods have gone."""
    domains: NDArray[np.int64]

    def clear(self, rows: Rows, places: Rows) -> None:
        for part in self.sums:
            part.clear(rows, places)
            np.subtract.at(self.anywhere, rows, part.gives[places])

    def move(self, rows: Rows, places: Rows, sign: int) -> None:
        for part in self.sums:
            part.move(rows, places, sign)
            self.anywhere[rows] += sign * part.gives[places]

    def exceeded(self, rows: Rows) -> Mask:
        met = np.ones(len(rows), bool)
        for part in self.sums:
            met &= part.used[rows] > 0
        if self.first:
            met |= self.anywhere[rows] == 0
        return ~(met & self.labelled[rows])


def limits_of(pod: Pod, need: Need, neighbours: Neighbours, occupants: Occupants) -> Iterator[RowLimit]:
    """All that bear on a pod, in the order in which they refuse."""
    yield from _ports(pod, len(neighbours.columns), occupants)
    yield from _room(need, neighbours.holdings, occupants)
    yield from _of_others(pod, neighbours, occupants)


def limits_beside_room(pod: Pod, neighbours: Neighbours, occupants: Occupants) -> Iterator[RowLimit]:
    """The same without those that count what pods ask."""
    yield from _ports(pod, len(neighbours.columns), occupants)
    yield from _of_others(pod, neighbours, occupants)


def _of_others(pod: Pod, neighbours: Neighbours, occupants: Occupants) -> Iterator[RowLimit]:
    """By spreading, and by affinity between pods."""
    hard = [c for c in pod.spread if c.hard]
    labelled = np.ones(len(neighbours.columns), bool)
    for constraint in hard:
        labelled &= neighbours.columns.label(constraint.topology_key).codes >= 0
    for constraint in hard:
        yield from _spread(constraint, pod, labelled, neighbours, occupants)
    if pod.affinity.pods:
        yield _together(pod, neighbours, occupants)
    for term in pod.affinity.anti:
        chosen = occupants.where(neighbours.terms_match(pod.namespace, (term,)))
        counts = neighbours.counts_of(pod.namespace, (term,))
        yield _none_near(NOT_BESIDE, term, counts, chosen.astype(np.int64), neighbours)
    for owned, counts in neighbours.terms_for(pod):
        if owned.kind == FORBIDS:
            yield _none_near(NOT_WANTED, owned.term, counts, occupants.with_term(owned), neighbours)


def _ports(pod: Pod, nodes: int, occupants: Occupants) -> Iterator[RowLimit]:
    if pod.host_ports:
        gives = np.zeros(len(occupants.pods), np.int64)
        for place in occupants.with_ports():
            held = occupants.pods[place].host_ports
            gives[place] = any(ports.clash(a, b) for a in held for b in pod.host_ports)
        used = np.zeros(nodes, np.int64)
        np.add.at(used, occupants.rows, gives)
        yield Sum(PORTS_TAKEN, np.zeros(nodes, np.int64), used, gives, np.arange(nodes))


def _room(need: Need, holdings: Holdings, occupants: Occupants) -> Iterator[RowLimit]:
    """After how many pods, and after how much of each resource, nothing is left for this one.

    Without those that no row exceeds with everybody there: it does not with fewer.
    """
    columns = holdings.columns
    crowded = RefusalKind(resources.NAME, (resources.CROWDED,), unresolvable=False)
    same = np.zeros(len(columns), np.int64)
    most = columns.allocatable(PODS) - 1
    if (holdings.pods > most).any():
        ones = np.ones(len(occupants.pods), np.int64)
        yield Sum(crowded, most, holdings.pods.copy(), ones, same)
    for name, amount in counted(need):
        most, used = columns.allocatable(name) - amount, holdings.used(name)
        if (used > most).any():
            kind = RefusalKind(resources.NAME, (resources.insufficient(name),), unresolvable=False)
            yield Sum(kind, most, used.copy(), occupants.asking(name), same)


def _spread(
    constraint: SpreadConstraint, pod: Pod, labelled: Mask, neighbours: Neighbours, occupants: Occupants
) -> Iterator[RowLimit]:
    """A domain may have so many more than the emptiest of the others."""
    columns = neighbours.columns
    column = columns.label(constraint.topology_key)
    eligible = labelled & counting_nodes(constraint, pod, columns)
    nothing = np.zeros(len(occupants.pods), np.int64)
    lacks = np.where(column.codes < 0, -1, _NO_LIMIT)
    same = np.zeros(len(columns), np.int64)
    yield Sum(UNLABELLED, lacks, same.copy(), nothing, same)
    counts = np.where(eligible, neighbours.spread_counts(pod.namespace, constraint.selector), 0)
    sums = by_domain(column, counts)
    own = int(selector_matches(constraint.selector, pod.labels))
    most = (
        constraint.max_skew - own + _least_of_others(constraint, sums[:-1], np.unique(column.codes[eligible]))
    )
    if own > constraint.max_skew:
        most[column.codes[eligible]] = -1
    matches = occupants.where(neighbours.spread_match(pod.namespace, constraint.selector))
    gives = (matches & eligible[occupants.rows]).astype(np.int64)
    by_row = np.append(most, _NO_LIMIT)[column.codes]
    yield Sum(SKEWED, by_row, sums[column.codes], gives, column.codes.astype(np.int64))


def _least_of_others(constraint: SpreadConstraint, sums: Counts, domains: NDArray[np.int32]) -> Counts:
    """By domain: the fewest of any other domain that counts; 0 where there are too few domains."""
    least = np.zeros(len(sums), np.int64)
    if len(domains) and len(domains) >= constraint.min_domains:
        ordered = np.sort(sums[domains])
        least[:] = ordered[0]
        second = ordered[1] if len(ordered) > 1 else _NO_LIMIT // 2
        least[domains[sums[domains] == ordered[0]]] = second
    return least


def _together(pod: Pod, neighbours: Neighbours, occupants: Occupants) -> RowLimit:
    columns, terms = neighbours.columns, pod.affinity.pods
    counts = neighbours.counts_of(pod.namespace, terms)
    match = neighbours.terms_match(pod.namespace, terms)
    chosen = occupants.where(match)
    nothing = np.zeros(len(columns), np.int64)
    labelled, anywhere = np.ones(len(columns), bool), 0
    sums: list[Sum] = []
    for term in terms:
        column = columns.label(term.topology_key)
        labelled &= column.codes >= 0
        there = np.where(column.codes >= 0, counts, 0)
        anywhere += int(there.sum())
        gives = (chosen & (column.codes[occupants.rows] >= 0)).astype(np.int64)
        sums.append(Sum(NOT_WITH, nothing, by_domain(column, there)[column.codes], gives, nothing))
    return Together(NOT_WITH, labelled, match(pod.namespace, pod.labels), sums, nothing + anywhere, nothing)


def _none_near(
    kind: RefusalKind, term: PodTerm, counts: Counts, gives: Counts, neighbours: Neighbours
) -> RowLimit:
    """Nobody of those counted in the row's domain; a row without the label has none."""
    column = neighbours.columns.label(term.topology_key)
    most = np.where(column.codes < 0, _NO_LIMIT, 0)
    codes = column.codes.astype(np.int64)
    return Sum(kind, most, by_domain(column, counts)[column.codes], gives.copy(), codes)
