"""DefaultPreemption on columns: every node that lesser pods could leave is tried at once.

What it finds is what `decide.kubernetes.scheduler.preemption` finds node by node. Nodes that are being
cleared for other pods are tried there, of which there are few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tonnage.decide.kubernetes.scheduler import messages
from tonnage.decide.kubernetes.scheduler.filters import resources
from tonnage.decide.kubernetes.scheduler.fleet.best_rows import may_be_best
from tonnage.decide.kubernetes.scheduler.fleet.columns import Mask
from tonnage.decide.kubernetes.scheduler.fleet.filters import FEASIBLE, Refused, Rows
from tonnage.decide.kubernetes.scheduler.fleet.fleet import Fleet
from tonnage.decide.kubernetes.scheduler.fleet.holdings import need_of
from tonnage.decide.kubernetes.scheduler.fleet.limits import RowLimit, limits_of
from tonnage.decide.kubernetes.scheduler.fleet.occupants import Occupants
from tonnage.decide.kubernetes.scheduler.preemption import (
    PreemptionCandidate,
    PreemptionOutcome,
    Trials,
    cleared,
    covers,
    looked_at,
    nobody_goes,
)
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.model.kubernetes.cluster import Pod


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A pod, and whom it may displace; `turns`: the rows in the order in which the scheduler asks nodes."""

    pod: Pod
    view: ClusterView
    names: tuple[str, ...]
    occupants: Occupants
    turns: Rows


def preempt_on(
    fleet: Fleet, occupants: Occupants, turns: Rows, pod: Pod, refused: Refused
) -> PreemptionOutcome:
    """The node to clear for a pod that every node refuses; `turns` as `FleetEngine` has them."""
    view, columns, trials = fleet.view, fleet.columns, Trials()
    final = np.array([True, *(kind.unresolvable for kind in refused.kinds)])[refused.codes - FEASIBLE]
    rows = np.flatnonzero(~final & (occupants.least < pod.priority))
    trials.texts[messages.NOT_HELPFUL] += int(final.sum())
    trials.potential = len(columns) - int(final.sum())
    trials.texts[messages.NO_VICTIMS] += len(columns) - int(final.sum()) - len(rows)
    guarded = np.isin(rows, [columns.row_of[name] for name in view.nominated if name in columns.row_of])
    for row in rows[guarded].tolist():
        trials.add(cleared(pod, view.nodes[columns.names[row]], view))
    rows = rows[~guarded]
    if len(rows):
        limits = list(limits_of(pod, need_of(pod), fleet.neighbours, occupants))
        limits += fleet.claim_columns.limits(pod, len(occupants.pods))
        best = _best(_Attempt(pod, view, columns.names, occupants, turns), limits, rows, trials)
        trials.candidates += [best] if best is not None else []
    trials.texts += Counter()  # without what was counted as none
    return trials.outcome(len(columns))


def _best(
    attempt: _Attempt, limits: Sequence[RowLimit], rows: Rows, trials: Trials
) -> PreemptionCandidate | None:
    """Of these rows the one that costs least to clear; what else is to be said goes to `trials`."""
    occupants = attempt.occupants
    going = np.zeros(len(attempt.names), bool)
    going[rows] = True
    places = np.flatnonzero(going[occupants.rows] & (occupants.priorities < attempt.pod.priority))
    for limit in limits:
        limit.clear(occupants.rows[places], places)
    going[rows] = ~_refusing(limits, rows, trials.texts)
    places = places[going[occupants.rows[places]]]
    if not len(places):
        return None
    breaking = _breaking(attempt.view, occupants, places)
    victims = _victims(limits, occupants.rows[places], places, breaking)
    going[occupants.rows[places[victims]]] = False
    for row in np.flatnonzero(going).tolist():
        trials.add(nobody_goes(attempt.names[row]))
    if not victims.any():
        return None
    return _cheapest(attempt, places[victims], breaking[victims], trials)


def _refusing(limits: Sequence[RowLimit], rows: Rows, texts: Counter[str]) -> Mask:
    """Which rows refuse the pod even so; each says the first plugin's words, and all of its resources."""
    refusing = np.zeros(len(rows), bool)
    for plugin, parts in groupby(limits, key=lambda limit: limit.kind.plugin):
        now = np.zeros(len(rows), bool)
        for limit in parts:
            exceeded = limit.exceeded(rows) & ~refusing
            if plugin != resources.NAME:
                exceeded &= ~now
            texts[limit.kind.texts[0]] += int(exceeded.sum())
            now |= exceeded
        refusing |= now
    return refusing


def _victims(limits: Sequence[RowLimit], rows: Rows, places: Rows, breaking: Mask) -> Mask:
    """Which of the pods must go: those whose going breaks a budget are put back first, then the important.

    `places` are in order of rows and importance; all rows put back their next pod at once.
    """
    starts, counts = _blocks(rows)
    order = np.lexsort((~breaking, rows)) if breaking.any() else np.arange(len(rows))
    victims = np.zeros(len(rows), bool)
    for turn in range(int(counts.max(initial=0))):
        part = order[starts[counts > turn] + turn]
        limit_rows, limit_places = rows[part], places[part]
        stays = np.ones(len(part), bool)
        for limit in limits:
            limit.move(limit_rows, limit_places, 1)
            stays &= ~limit.exceeded(limit_rows)
        for limit in limits:
            limit.move(limit_rows[~stays], limit_places[~stays], -1)
        victims[part[~stays]] = True
    return victims


def _blocks(rows: Rows) -> tuple[Rows, Rows]:
    """Where each row's places begin among all in the order of rows, and how many they are."""
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    return starts, np.diff(starts, append=len(rows))


def _breaking(view: ClusterView, occupants: Occupants, places: Rows) -> Mask:
    """Pods whose going breaks a disruption budget, if all go, the important first."""
    breaking = np.zeros(len(places), bool)
    pods = [occupants.pods[place] for place in places.tolist()] if view.snapshot.budgets else []
    for budget in view.snapshot.budgets:
        covered = np.flatnonzero(np.fromiter((covers(budget, pod) for pod in pods), bool, len(pods)))
        rows = occupants.rows[places[covered]]
        before = np.arange(len(rows)) - np.searchsorted(rows, rows)
        breaking[covered[before + 1 > budget.allowed]] = True
    return breaking


def _cheapest(attempt: _Attempt, victims: Rows, breaking: Mask, trials: Trials) -> PreemptionCandidate:
    """Fewest broken budgets, lowest top victim, least priority in sum, fewest, latest started, name."""
    occupants = attempt.occupants
    starts, counts = _blocks(occupants.rows[victims])
    rows = occupants.rows[victims[starts]]
    priorities = occupants.priorities[victims]
    top = priorities[starts]  # the first of a row is the most important
    total = np.add.reduceat(priorities + 2**31, starts)
    of_top = priorities == np.repeat(top, counts)
    started = np.where(of_top, occupants.earliest[victims], np.iinfo(np.int64).max)
    earliest = np.minimum.reduceat(started, starts)
    violations = np.add.reduceat(breaking.astype(np.int64), starts)
    keys = [key for key in (-earliest, counts, total, top, violations) if (key != key[0]).any()]
    order = np.lexsort(keys) if keys else np.arange(len(rows))
    steps = np.zeros(len(rows), np.int64)
    for key in keys:
        steps[1:] |= np.diff(key[order]) != 0
    ranks = np.empty(len(rows), np.int64)
    ranks[order] = np.cumsum(steps)
    trials.equals = _any_of(attempt, rows, ranks, trials.potential)
    first = order[0]
    gone = victims[starts[first] : starts[first] + counts[first]]
    pods = tuple(occupants.pods[place] for place in gone.tolist())
    return PreemptionCandidate(attempt.names[int(rows[first])], pods, int(violations[first]))


def _any_of(attempt: _Attempt, rows: Rows, ranks: NDArray[np.int64], potential: int) -> tuple[str, ...]:
    """As `preemption.any_of`, of rows with their ranks; in the order of names."""
    turns = attempt.turns
    there = np.full(len(attempt.names), -1, np.int64)
    there[rows] = ranks
    in_turn = turns[there[turns] >= 0]
    chosen = in_turn[may_be_best(-there[in_turn], looked_at(attempt.pod, attempt.view, potential))]
    return tuple(attempt.names[row] for row in np.sort(chosen).tolist())
