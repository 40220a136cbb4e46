"""Preemption on columns: every node that lesser pods could leave is tried at once.

What it finds is what `decide.cluster.preemption` finds node by node. Nodes that are being cleared for other
pods are tried there, of which there are few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np

from tonnage.decide.cluster import messages
from tonnage.decide.cluster.filters import resources
from tonnage.decide.cluster.fleet.columns import Mask
from tonnage.decide.cluster.fleet.fleet import Fleet
from tonnage.decide.cluster.fleet.holdings import need_of
from tonnage.decide.cluster.fleet.limits import Limit, limits_of
from tonnage.decide.cluster.fleet.occupants import Occupants
from tonnage.decide.cluster.fleet.refusing import FEASIBLE, Refused, Rows
from tonnage.decide.cluster.preemption import (
    Candidate,
    Preemption,
    Trials,
    any_of,
    cleared,
    covers,
    nobody_goes,
)
from tonnage.decide.cluster.view import View
from tonnage.model.cluster import Pod


def preempt_on(fleet: Fleet, occupants: Occupants, pod: Pod, refused: Refused) -> Preemption:
    """The node to clear for a pod that every node refuses."""
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
        best = _best(pod, view, occupants, limits, rows, trials)
        trials.candidates += [best] if best is not None else []
    trials.texts += Counter()  # without what was counted as none
    return trials.settled(len(columns))


def _best(
    pod: Pod,
    view: View,
    occupants: Occupants,
    limits: Sequence[Limit],
    rows: Rows,
    trials: Trials,
) -> Candidate | None:
    """Of these rows the one that costs least to clear; what else is to be said goes to `trials`."""
    going = np.zeros(len(view.nodes), bool)
    going[rows] = True
    places = np.flatnonzero(going[occupants.rows] & (occupants.priorities < pod.priority))
    for limit in limits:
        limit.move(occupants.rows[places], places, -1)
    going[rows] = ~_refusing(limits, rows, trials.texts)
    places = places[going[occupants.rows[places]]]
    if not len(places):
        return None
    breaking = _breaking(view, occupants, places)
    victims = _victims(limits, occupants.rows[places], places, breaking)
    names = tuple(view.nodes)
    spared = np.setdiff1d(occupants.rows[places], occupants.rows[places[victims]])
    for row in spared.tolist():
        trials.add(nobody_goes(names[row]))
    if not victims.any():
        return None
    return _cheapest(pod, view, occupants, places[victims], breaking[victims], trials)


def _refusing(limits: Sequence[Limit], rows: Rows, texts: Counter[str]) -> Mask:
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


def _victims(limits: Sequence[Limit], rows: Rows, places: Rows, breaking: Mask) -> Mask:
    """Which of the pods must go: those whose going breaks a budget are put back first, then the important.

    `places` are in order of rows and importance; all rows put back their next pod at once.
    """
    order = np.lexsort((np.arange(len(rows)), ~breaking, rows))
    turn = np.arange(len(rows)) - np.searchsorted(rows, rows)
    victims = np.zeros(len(rows), bool)
    for part in _turns(order, turn):
        limit_rows, limit_places = rows[part], places[part]
        for limit in limits:
            limit.move(limit_rows, limit_places, 1)
        stays = ~np.logical_or.reduce([limit.exceeded(limit_rows) for limit in limits])
        for limit in limits:
            limit.move(limit_rows[~stays], limit_places[~stays], -1)
        victims[part[~stays]] = True
    return victims


def _turns(order: Rows, turn: Rows) -> Iterable[Rows]:
    """The pods of each turn, out of an order in which those of a row follow one another."""
    by_turn = np.argsort(turn, kind="stable")
    return np.split(order[by_turn], np.cumsum(np.bincount(turn))[:-1])


def _breaking(view: View, occupants: Occupants, places: Rows) -> Mask:
    """Pods whose going breaks a disruption budget, if all go, the important first."""
    found = np.zeros(len(places), bool)
    pods = [occupants.pods[place] for place in places.tolist()] if view.snapshot.budgets else []
    for budget in view.snapshot.budgets:
        covered = np.flatnonzero(np.fromiter((covers(budget, pod) for pod in pods), bool, len(pods)))
        rows = occupants.rows[places[covered]]
        before = np.arange(len(rows)) - np.searchsorted(rows, rows)
        found[covered[before + 1 > budget.allowed]] = True
    return found


def _cheapest(
    pod: Pod, view: View, occupants: Occupants, victims: Rows, breaking: Mask, trials: Trials
) -> Candidate:
    """Fewest broken budgets, lowest top victim, least priority in sum, fewest, latest started, name."""
    rows, starts, which = np.unique(occupants.rows[victims], return_index=True, return_inverse=True)
    priorities = occupants.priorities[victims]
    top = priorities[starts]  # the first of a row is the most important
    total = np.zeros(len(rows), np.int64)
    np.add.at(total, which, priorities + 2**31)
    earliest = np.full(len(rows), np.iinfo(np.int64).max)
    of_top = priorities == top[which]
    np.minimum.at(earliest, which[of_top], occupants.earliest[victims[of_top]])
    violations = np.bincount(which, breaking, len(rows)).astype(np.int64)
    keys = np.array([-earliest, np.bincount(which), total, top, violations])
    order = np.lexsort((rows, *keys))
    first = order[0]
    steps = (keys[:, order[1:]] != keys[:, order[:-1]]).any(axis=0)
    ranks = np.concatenate(([0], np.cumsum(steps)))
    names = tuple(view.nodes)
    by_name = {names[rows[at]]: rank for at, rank in zip(order.tolist(), ranks.tolist(), strict=True)}
    trials.equals = any_of(pod, view, by_name, trials.potential)
    gone = tuple(occupants.pods[place] for place in victims[which == first].tolist())
    return Candidate(names[rows[first]], gone, int(violations[first]))
