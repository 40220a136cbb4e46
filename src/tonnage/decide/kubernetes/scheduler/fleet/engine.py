"""A fleet as the scheduler's engine, and the nodes that answer a pod alike, found without asking each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tonnage.decide.kubernetes.requests import PODS, comes_back
from tonnage.decide.kubernetes.scheduler import messages
from tonnage.decide.kubernetes.scheduler.filtering import Filtered
from tonnage.decide.kubernetes.scheduler.filters import node_affinity
from tonnage.decide.kubernetes.scheduler.fleet.columns import Amounts, Columns, Keys, in_order, interned
from tonnage.decide.kubernetes.scheduler.fleet.filters import FEASIBLE, Refused, Rows, counted
from tonnage.decide.kubernetes.scheduler.fleet.fleet import Fleet, conflicts, fleet_of
from tonnage.decide.kubernetes.scheduler.fleet.holdings import need_of
from tonnage.decide.kubernetes.scheduler.fleet.limits import limits_beside_room
from tonnage.decide.kubernetes.scheduler.fleet.occupants import Occupants, occupants_of
from tonnage.decide.kubernetes.scheduler.fleet.preemption import preempt_on
from tonnage.decide.kubernetes.scheduler.preemption import PreemptionOutcome, not_eligible
from tonnage.decide.kubernetes.scheduler.refusal import PluginRefusal
from tonnage.decide.kubernetes.scheduler.score_table import TOTAL, Scores
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.model.kubernetes.cluster import Pod

_ENOUGH: Final = 0
_NONE: Final = 1
_TOO_LARGE: Final = 2
_TOO_LARGE_NOW: Final = 3
_SHORT: Final = 4
_MOST_LABELS: Final = 64


@dataclass(frozen=True, slots=True)
class FleetEngine:
    """Filters and scores of `schedule_on` on columns; refusals have plugin and words, no reasons."""

    fleet: Fleet
    occupants: Occupants
    marks: NDArray[np.int64]
    """A number a row, of whatever else tells nodes apart for those who ask."""
    turns: Rows
    """The rows in the order in which the scheduler asks nodes."""
    states: NDArray[np.int64] | None = None
    """As `marks`, of what tells the answers of nodes apart that are of one class."""

    def filter(self, pod: Pod) -> Filtered:
        """Judge every node."""
        if conflicts(pod):
            return Filtered((), {}, node_affinity.CONFLICT, node_affinity.NAME)
        refused = self.fleet.refused(pod)
        feasible = tuple(self.fleet.columns.by_row[refused.codes == FEASIBLE].tolist())
        refusals = _Refusals(self.fleet.columns, refused)
        return Filtered(feasible, refusals, counted=refusals.counted())

    def preempt(self, pod: Pod, filtered: Filtered) -> PreemptionOutcome:
        """The node to clear for the pod."""
        refusal = not_eligible(pod, self.fleet.view, filtered)
        if refusal:
            return PreemptionOutcome(message=refusal, tried=False)
        if filtered.conflict:
            nodes = len(self.fleet.columns)
            return PreemptionOutcome(message=messages.fit_error(nodes, {messages.NOT_HELPFUL: nodes}))
        return preempt_on(self.fleet, self.occupants, self.turns, pod, self.fleet.refused(pod))

    def rate(self, pod: Pod, feasible: tuple[str, ...]) -> Scores:
        """Weighted scores by node and plugin, with their total."""
        rows = [self.fleet.columns.row_of[name] for name in feasible]
        mask = np.zeros(len(self.fleet.columns), bool)
        mask[rows] = True
        ratings = {plugin: part[rows] for plugin, part in self.fleet.ratings(pod, mask).items()}
        ratings[TOTAL] = np.sum([*ratings.values()], axis=0)
        return Scores(feasible, {plugin: column.tolist() for plugin, column in ratings.items()})

    def best(self, pod: Pod) -> str | None:
        """The feasible node with the best total."""
        return self.fleet.best(pod)

    def asking(self, resource: str) -> NDArray[np.int64]:
        """By row: how many pods ask for some of a resource."""
        return self.occupants.counted(resource)

    def can_decide(self, pod: Pod) -> bool:
        """Whether the columns know each node's answer to the pod."""
        return self.can_tell_apart(pod) and self.fleet.claim_columns.decide(pod)

    def can_tell_apart(self, pod: Pod) -> bool:
        """Whether they know what bears on the pod: no volumes, no node that is cleared, plain claims."""
        if pod.volumes or pod.disks or pod.status.nominated_node:
            return False
        return self.fleet.view.settings(pod).is_default and self.fleet.claim_columns.know(pod)

    def kind_of_devices(self, pod: Pod) -> Callable[[str], int] | None:
        """By node: a number for what its devices are to the pod's claims; None: it waits for none."""
        kinds, row_of = self.fleet.claim_columns.kinds(pod), self.fleet.columns.row_of
        return None if kinds is None else lambda name: int(kinds[row_of[name]])

    def alike(self, pod: Pod) -> list[Rows]:
        """Rows by classes; nodes of one class answer with the same reasons but for names and free amounts.

        The nodes with the least and the most free of what is short stand alone, so that first members tell
        the range. In the order of names; of one class those with the most free devices come first.
        """
        columns, holdings = self.fleet.columns, self.fleet.holdings
        states = self._states(pod)
        class_of = interned(self._looks(pod, states.values()))
        alone: list[Rows] = []
        free: list[Amounts] = []
        for name, state in states.items():
            short = np.flatnonzero(state > _NONE)  # of a class, which states tell apart, all or none
            free.append(columns.allocatable(name) - holdings.used(name))
            alone += [_extremes(class_of, part, short) for part in (free[-1], columns.allocatable(name))]
        rows = np.unique(np.concatenate(alone)) if alone else np.arange(0)
        class_of[rows] = len(columns) + rows
        classes = _split(class_of, in_order([class_of, *(-amounts for amounts in reversed(free))]))
        return sorted(classes, key=lambda rows: int(rows.min()))

    def the_same(self, pod: Pod) -> list[Rows]:
        """Rows by finer classes; nodes of one answer the same but for their names and the pods they hold."""
        columns, states = self.fleet.columns, self._states(pod)
        keys = [*self._looks(pod, states.values()), *([self.states] if self.states is not None else [])]
        for name, state in states.items():
            amounts = (columns.allocatable(name), columns.capacity(name), self.fleet.holdings.used(name))
            keys.append(np.where(state != _ENOUGH, interned(amounts), -1))
        class_of = interned(keys)
        return _split(class_of, np.argsort(class_of, kind="stable"))

    def _looks(self, pod: Pod, states: Iterable[NDArray[np.int64]]) -> list[Keys]:
        """What the pod sees of nodes, a column each; those that it names look like no others."""
        columns, holdings = self.fleet.columns, self.fleet.holdings
        keys: list[Keys] = [self.marks, columns.cordoned, columns.taint_codes]
        keys += [columns.label(key).codes for key in sorted(_keys_of(pod))]
        full = holdings.pods + 1 > columns.allocatable(PODS)
        keys.append(np.where(full, holdings.pods * 10_000 + columns.allocatable(PODS), -1))
        keys += states
        kinds = self.fleet.claim_columns.kinds(pod)
        keys += [kinds] if kinds is not None else []
        pins = node_affinity.pinned_names(pod)
        named = {*(pins or ()), pod.node_name, *_names_in(pod), *self.fleet.view.nominated}
        rows = [columns.row_of[name] for name in named if name in columns.row_of]
        alone = np.full(len(columns), -1)
        alone[rows] = rows
        return [*keys, alone, *self._neighbours(pod)]

    def _neighbours(self, pod: Pod) -> Iterator[Keys]:
        """Where pods that are there keep this one out: the domain, as the reason names it, else -1."""
        everywhere = np.arange(len(self.fleet.columns))
        for limit in limits_beside_room(pod, self.fleet.neighbours, self.occupants):
            yield np.where(limit.exceeded(everywhere), limit.domains, -1)

    def _states(self, pod: Pod) -> dict[str, NDArray[np.int64]]:
        """By resource that the pod asks for: how its request stands to each node."""
        return {name: self._state(name, amount) for name, amount in counted(need_of(pod))}

    def _state(self, name: str, amount: int) -> NDArray[np.int64]:
        """How a request for so much stands to each node."""
        columns = self.fleet.columns
        there, used = columns.allocatable(name), self.fleet.holdings.used(name)
        capacity = columns.capacity(name) if comes_back(name) else there
        lasting = np.where(amount > np.maximum(there, capacity), _TOO_LARGE, _TOO_LARGE_NOW)
        large = np.where(there == 0, np.where(amount > capacity, _NONE, -_NONE), lasting)
        state = np.where(amount > there - used, _SHORT, _ENOUGH)
        states: NDArray[np.int64] = np.where(amount > there, large, state)
        return states


def engine_of(
    view: ClusterView, marks: Sequence[int], states: Sequence[int], labels: Iterable[str] = ()
) -> FleetEngine:
    """The engine of a view; `marks` and `states` as `FleetEngine` has them.

    Ready for questions about `labels`, and about those that waiting pods look at.
    """
    fleet = fleet_of(view)
    waiting = (pod for pod in view.snapshot.pods if not pod.node_name)
    for key in islice({*labels, *(key for pod in waiting for key in _keys_of(pod))}, _MOST_LABELS):
        fleet.columns.label(key)
    occupants = occupants_of(fleet.columns, view.nodes)
    return FleetEngine(
        fleet, occupants, np.array(marks, np.int64), turns_of(fleet), np.array(states, np.int64)
    )


def turns_of(fleet: Fleet) -> Rows:
    """The rows of a fleet in the order in which the scheduler asks nodes."""
    return np.array([fleet.columns.row_of[name] for name in fleet.view.asking_order], np.intp)


class _Refusals(Mapping[str, tuple[PluginRefusal, ...]]):
    """By node: the one refusal that counts, without reasons."""

    def __init__(self, columns: Columns, refused: Refused) -> None:
        self._row_of = columns.row_of
        self._names = columns.names
        self._column = refused.codes
        self._kinds = [(PluginRefusal(k.plugin, k.texts, k.unresolvable, ()),) for k in refused.kinds]

    def __getitem__(self, name: str) -> tuple[PluginRefusal, ...]:
        code = int(self._column[self._row_of[name]])
        if code == FEASIBLE:
            raise KeyError(name)
        return self._kinds[code]

    def get(self, name: str, default: Any = None) -> Any:  # of its overloads the body serves every one
        code = int(self._column[self._row_of[name]])
        return default if code == FEASIBLE else self._kinds[code]

    def counted(self) -> tuple[tuple[PluginRefusal, int], ...]:
        """The refusals that occur, and how often."""
        counts = np.bincount(self._column - FEASIBLE, minlength=1)[1:].tolist()
        return tuple((kind, count) for (kind,), count in zip(self._kinds, counts, strict=False) if count)

    def __iter__(self) -> Iterator[str]:
        return (
            name for name, code in zip(self._names, self._column.tolist(), strict=True) if code != FEASIBLE
        )

    def __len__(self) -> int:
        return int((self._column != FEASIBLE).sum())


def _keys_of(pod: Pod) -> set[str]:
    """Labels of nodes that the pod looks at."""
    terms = pod.affinity.node or ()
    return {*pod.node_selector, *(r.key for term in terms for r in term.expressions)}


def _names_in(pod: Pod) -> Iterator[str]:
    for term in pod.affinity.node or ():
        for requirement in term.fields:
            yield from requirement.values


def _split(class_of: NDArray[np.int64], order: Rows) -> list[Rows]:
    """Rows of each class, out of an order in which those of a class follow one another."""
    return np.split(order, np.flatnonzero(np.diff(class_of[order])) + 1)


def _extremes(class_of: NDArray[np.int64], amounts: Amounts, rows: Rows) -> Rows:
    """The first of these rows with the least and the last with the most, of classes with several amounts."""
    numbers, there = class_of[rows], amounts[rows]
    if not len(rows) or (there == there[0]).all():
        return rows[:0]
    least = np.full(int(numbers.max()) + 1, np.iinfo(np.int64).max)
    most = np.full(len(least), np.iinfo(np.int64).min)
    np.minimum.at(least, numbers, there)
    np.maximum.at(most, numbers, there)
    first, last = np.full(len(least), -1), np.full(len(least), -1)
    low, high = np.flatnonzero(there == least[numbers])[::-1], np.flatnonzero(there == most[numbers])
    first[numbers[low]] = rows[low]  # of several the one assigned last stays
    last[numbers[high]] = rows[high]
    differ = least < most
    return np.concatenate((first[differ], last[differ]))
