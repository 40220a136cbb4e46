"""Filters that look at other pods over a topology: hard spread constraints, and affinity between pods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tonnage.decide.kubernetes.matching import selector_matches
from tonnage.decide.kubernetes.scheduler.fleet.columns import Columns, LabelColumn, Mask
from tonnage.decide.kubernetes.scheduler.fleet.filters import (
    NOT_BESIDE,
    NOT_WANTED,
    NOT_WITH,
    SKEWED,
    UNLABELLED,
    Refused,
)
from tonnage.decide.kubernetes.scheduler.fleet.holdings import (
    FORBIDS,
    Counts,
    Holdings,
    Matches,
    OwnedTerm,
    term_selects,
)
from tonnage.decide.kubernetes.scheduler.fleet.selectors import blocked, selected
from tonnage.model.kubernetes.cluster import Pod, PodTerm, SpreadConstraint
from tonnage.model.kubernetes.selectors import Labels, LabelSelector

_EFFECTS = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Who is where, as the filters and scores that look at other pods ask it."""

    columns: Columns
    holdings: Holdings
    namespaces: Callable[[str], Labels]
    """Labels of a namespace."""
    overlooks: bool = False
    """The scheduler overlooks namespaces in the terms of the pod it places (`SchedulerRelease`)."""
    guests: tuple[tuple[int, Pod], ...] = ()
    """Pods by row that are there in thought only: spread constraints count them, whatever else they count."""
    shunning: bool = True
    """Whether the wishes of pods that run count: where none shuns a pod, none that is thought there does."""

    def spread_counts(self, namespace: str, selector: LabelSelector | None) -> Counts:
        """Pods by row that a spread constraint counts: none for an empty selector, never terminating ones."""
        if selector is None or not selector.requirements:
            counts = np.zeros(len(self.columns), np.int64)
        else:
            matches = self.spread_match(namespace, selector)
            key = "spread", namespace, selector
            counts = self.holdings.counts(key, matches, terminating=False, namespace=namespace)
        odd = [
            row
            for row, guest in self.guests
            if guest.namespace == namespace
            and (guest.status.terminating or (selector is not None and not selector.requirements))
            and selector_matches(selector, guest.labels)
        ]
        if odd:
            counts = counts.copy()
            np.add.at(counts, odd, 1)
        return counts

    def spread_match(self, namespace: str, selector: LabelSelector | None) -> Matches:
        """Whether a spread constraint selects such pods, whether or not it counts them."""

        def matches(other: str, labels: Labels) -> bool:
            return other == namespace and selector_matches(selector, labels)

        return matches

    def counts_of(self, namespace: str, terms: tuple[PodTerm, ...]) -> Counts:
        """Pods by row that all terms of a pod of this namespace select."""
        return self.holdings.counts(
            ("terms", namespace, terms), self.terms_match(namespace, terms), terminating=True
        )

    def terms_match(self, namespace: str, terms: tuple[PodTerm, ...]) -> Matches:
        """Whether all terms of a pod of this namespace select such pods."""

        def matches(other: str, labels: Labels) -> bool:
            there = self.namespaces(other)
            return all(
                term_selects(term, namespace, other, labels, there, overlooks=self.overlooks)
                for term in terms
            )

        return matches

    def terms_for(self, pod: Pod) -> list[tuple[OwnedTerm, Counts]]:
        """The terms of pods that run which select the pod, each with how many such pods by row."""
        here = self.namespaces(pod.namespace)
        selecting: list[tuple[OwnedTerm, Counts]] = []
        for owned, rows in self.holdings.terms.items():
            if term_selects(owned.term, owned.namespace, pod.namespace, pod.labels, here):
                counts = np.zeros(len(self.columns), np.int64)
                counts[list(rows)] = list(rows.values())
                selecting.append((owned, counts))
        return selecting

    def shuns(self, pod: Pod) -> bool:
        """Whether pods that run want to be away from this one."""
        owned = (
            (owned_term.term, counts)
            for owned_term, counts in self.terms_for(pod)
            if owned_term.kind == FORBIDS
        )
        return any(near(self.columns.label(term.topology_key), counts).any() for term, counts in owned)


def by_domain(column: LabelColumn, counts: Counts) -> Counts:
    """Sum over each value of a label, and what nodes without it have, last."""
    sums = np.zeros(len(column.values) + 1, np.int64)
    np.add.at(sums, column.codes, counts)
    return sums


def near(column: LabelColumn, counts: Counts) -> Mask:
    """Rows that share the label's value with a row that has any; never rows without the label."""
    present = by_domain(column, counts) > 0
    return column.where(present[:-1], absent=False)


def refuse_spread(refused: Refused, pod: Pod, neighbours: Neighbours) -> None:
    """Nodes that would bring a hard constraint's skew above its limit."""
    columns = neighbours.columns
    hard = [c for c in pod.spread if c.hard]
    labelled = np.ones(len(columns), bool)
    for constraint in hard:
        labelled &= columns.label(constraint.topology_key).codes >= 0
    for constraint in hard:
        column = columns.label(constraint.topology_key)
        refused.refuse(column.codes < 0, UNLABELLED)
        eligible = labelled & counting_nodes(constraint, pod, columns)
        counts = neighbours.spread_counts(pod.namespace, constraint.selector)
        sums = by_domain(column, np.where(eligible, counts, 0))[:-1]
        domains = np.unique(column.codes[eligible])
        least = 0
        if len(domains) and len(domains) >= constraint.min_domains:
            least = int(sums[domains].min())
        more = int(selector_matches(constraint.selector, pod.labels))
        full = sums + more - least > constraint.max_skew
        refused.refuse(column.where(full, absent=False), SKEWED)


def counting_nodes(constraint: SpreadConstraint, pod: Pod, columns: Columns) -> Mask:
    """Nodes whose pods count, by the constraint's inclusion policies."""
    counting = selected(columns, pod) if constraint.honour_affinity else np.ones(len(columns), bool)
    if constraint.honour_taints:
        free = np.array([count == 0 for count in blocked(columns, pod.tolerations, _EFFECTS)], bool)
        counting &= free[columns.taint_codes]
    return counting


def refuse_affinity(refused: Refused, pod: Pod, neighbours: Neighbours) -> None:
    """By the pod's own terms first, then by those of the pods that run."""
    columns, own = neighbours.columns, pod.affinity
    if own.pods:
        counts = neighbours.counts_of(pod.namespace, own.pods)
        labelled = np.ones(len(columns), bool)
        met = np.ones(len(columns), bool)
        anywhere = False
        for term in own.pods:
            column = columns.label(term.topology_key)
            labelled &= column.codes >= 0
            met &= near(column, counts)
            anywhere = anywhere or bool((counts[column.codes >= 0] > 0).any())
        here = neighbours.namespaces(pod.namespace)
        starts = not anywhere and all(
            term_selects(term, pod.namespace, pod.namespace, pod.labels, here, overlooks=neighbours.overlooks)
            for term in own.pods
        )
        refused.refuse(~labelled if starts else ~(labelled & met), NOT_WITH)
    for term in own.anti:
        counts = neighbours.counts_of(pod.namespace, (term,))
        refused.refuse(near(columns.label(term.topology_key), counts), NOT_BESIDE)
    for owned, counts in neighbours.terms_for(pod):
        if owned.kind == FORBIDS and neighbours.shunning:
            refused.refuse(near(columns.label(owned.term.topology_key), counts), NOT_WANTED)
