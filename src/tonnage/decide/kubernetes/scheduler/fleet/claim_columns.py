"""Which nodes give a pod's claims devices, as columns: of nodes whose devices are alike one is asked.

A question is what claims ask, whosever they are. Once devices are given, their node alone is looked at again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from tonnage.decide.kubernetes.claims.alike import DeviceTraits, devices_as_seen, traits_read_by
from tonnage.decide.kubernetes.claims.allocator import (
    INVALID_POOLS,
    ClaimDevices,
    NodeCannotAllocate,
    allocate,
)
from tonnage.decide.kubernetes.claims.extended_resources import backed_by_classes
from tonnage.decide.kubernetes.claims.pod_claims import PodClaims, claims_of, stops, unreadable
from tonnage.decide.kubernetes.scheduler.filters import claims as claims_filter
from tonnage.decide.kubernetes.scheduler.fleet.columns import Amounts, Codes, Columns
from tonnage.decide.kubernetes.scheduler.fleet.filters import FEASIBLE, RefusalKind, Refused
from tonnage.decide.kubernetes.scheduler.fleet.limits import RowLimit, Sum
from tonnage.decide.kubernetes.scheduler.scores.claims import worth_of
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.model.kubernetes.cluster import Node, Pod
from tonnage.model.kubernetes.resource_claims import ResourceClaim

_REFUSALS: Final = tuple(
    RefusalKind(claims_filter.NAME, (text,), unresolvable=True)
    for text in (claims_filter.CANNOT_ALLOCATE, INVALID_POOLS)
)
_UNDECIDED: Final = len(_REFUSALS)
"""The code of a node on which the allocator fails, or whose answer is not known."""
_MOST_QUESTIONS: Final = 32

_Answer: TypeAlias = tuple[int, int]
"""FEASIBLE, or which refusal; and what the chosen alternatives of requests are worth."""


@dataclass(slots=True)
class _Question:
    """Claims and the nodes' answers by row; `kinds` are numbers for what devices are to the claims."""

    claims: tuple[ResourceClaim, ...]
    traits: DeviceTraits
    kinds: Amounts
    codes: Codes
    worths: Amounts
    numbers: dict[Hashable, int] = field(default_factory=dict)
    answers: list[_Answer] = field(default_factory=list)
    """By kind."""
    changes: int = 0
    """How many of the supply's changed nodes it has taken in."""


class ClaimColumns:
    """The answers of all nodes to the claims of pods, kept for as long as the devices stay as they are."""

    def __init__(self, view: ClusterView, columns: Columns) -> None:
        self._view = view
        self._supply = view.supply
        self._columns = columns
        self._questions: dict[Hashable, _Question | None] = {}

    def know(self, pod: Pod) -> bool:
        """Whether the columns tell nodes apart by all that bears on the pod's claims."""
        if backed_by_classes(pod, self._supply):  # what it claims differs by node
            return False
        return not pod.claims or self._claims(pod) == () or self._question(pod) is not None

    def decide(self, pod: Pod) -> bool:
        """Whether they know every node's answer, too."""
        if not self.know(pod):
            return False
        question = self._question(pod)
        return question is None or not (question.codes == _UNDECIDED).any()

    def kinds(self, pod: Pod) -> Amounts | None:
        """By row: a number for what its devices are to the pod's claims; None: it waits for none."""
        question = self._question(pod) if self.know(pod) else None
        return None if question is None else question.kinds

    def refuse(self, refused: Refused, pod: Pod) -> None:
        """Nodes without devices for the pod's claims."""
        question = self._question(pod)
        if question is not None:
            for code, kind in enumerate(_REFUSALS):
                refused.refuse(question.codes == code, kind)

    def worths(self, pod: Pod) -> Amounts | None:
        """By row: what the chosen alternatives of requests are worth (not yet in percent)."""
        question = self._question(pod)
        return None if question is None else question.worths

    def limits(self, pod: Pod, occupants: int) -> Iterator[RowLimit]:
        """The refusals as limits that no pod's going changes; `occupants`: how many pods there are."""
        question = self._question(pod)
        if question is not None:
            nothing = np.zeros(len(self._columns), np.int64)
            gives = np.zeros(occupants, np.int64)
            for code, kind in enumerate(_REFUSALS):
                here = (question.codes == code).astype(np.int64)
                yield Sum(kind, nothing, here, gives, question.kinds)

    def _claims(self, pod: Pod) -> tuple[ResourceClaim, ...] | None:
        """The pod's claims, all without devices; None where something else has to be said of them."""
        if not self._view.profile.allocates:
            return None
        claims = claims_of(pod, self._supply.claims)
        settled = claims.missing or any(claim.allocation or claim.problems for claim in claims.claims)
        return None if settled or stops(claims, self._supply)[0] else claims.claims

    def _question(self, pod: Pod) -> _Question | None:
        claims = self._claims(pod) if pod.claims else ()
        if not claims:
            return None
        traits = traits_read_by(claims, self._supply)
        if traits is None:
            return None
        key = tuple((claim.requests, claim.constraints) for claim in claims)
        if key not in self._questions:
            while len(self._questions) >= _MOST_QUESTIONS:
                del self._questions[next(iter(self._questions))]
            self._questions[key] = self._first_look(claims, traits)
        question = self._questions[key]
        if question is not None:
            self._take_in(question)
        return question

    def _first_look(self, claims: tuple[ResourceClaim, ...], traits: DeviceTraits) -> _Question | None:
        if any(unreadable(PodClaims(claims), self._supply)):
            return None
        size = len(self._columns)
        kinds, worths = np.zeros(size, np.int64), np.zeros(size, np.int64)
        question = _Question(claims, traits, kinds, np.zeros(size, np.int32), worths)
        question.changes = len(self._supply.changed)
        for row in range(size):
            self._judge(question, row)
        return question

    def _take_in(self, question: _Question) -> None:
        changed = self._supply.changed
        for name in set(changed[question.changes :]):
            if name in self._columns.row_of:
                self._judge(question, self._columns.row_of[name])
        question.changes = len(changed)

    def _judge(self, question: _Question, row: int) -> None:
        node, numbers = self._columns.nodes[row], question.numbers
        devices = devices_as_seen(node.name, question.traits, self._supply)
        kind = numbers.setdefault(devices, len(numbers))
        if kind == len(question.answers):
            question.answers.append(self._answer(question.claims, node))
        question.kinds[row] = kind
        question.codes[row], question.worths[row] = question.answers[kind]

    def _answer(self, claims: tuple[ResourceClaim, ...], node: Node) -> _Answer:
        answer = allocate(claims, node, self._supply)
        if isinstance(answer, ClaimDevices):
            names = ([picked.request for picked in part] for part in answer.devices)
            return FEASIBLE, sum(map(worth_of, claims, names))
        if isinstance(answer, NodeCannotAllocate):
            return int(answer.upstream_message == INVALID_POOLS), 0
        return _UNDECIDED, 0
