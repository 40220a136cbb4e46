"""Edits that together answer all reasons of a node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.view import ClusterView
from tonnage.diagnose.case import Case
from tonnage.diagnose.remedies.remedy_edit import RemedyEdit
from tonnage.model.kubernetes.cluster import Pod

_TOGETHER_COST: Final = 15
"""What needing several changes at once adds for each but the first."""


@dataclass(frozen=True, slots=True)
class RemedyPlan:
    """Edits, and the node that they are for."""

    edits: tuple[RemedyEdit, ...]
    node: str

    @property
    def cost(self) -> int:
        """By which plans are ordered, the cheapest first."""
        return sum(e.cost for e in self.edits) + _TOGETHER_COST * (len(self.edits) - 1)

    @property
    def key(self) -> frozenset[str]:
        """Plans with one key are the same."""
        return frozenset(e.key for e in self.edits)

    @property
    def changes(self) -> tuple[RemedyEdit, ...]:
        """What is to be done beside waiting."""
        return tuple(e for e in self.edits if not e.waits_for)

    @property
    def waits(self) -> tuple[RemedyEdit, ...]:
        """What only takes time."""
        return tuple(e for e in self.edits if e.waits_for)

    def is_less_than(self, other: RemedyPlan) -> bool:
        """Whether it asks for less of a resource than another plan that changes nothing besides."""
        asks = {edit.asks[0]: edit.asks[1] for edit in self.edits if edit.asks is not None}
        more = {edit.asks[0]: edit.asks[1] for edit in other.edits if edit.asks is not None}
        if other is self or not asks or asks.keys() != more.keys() or asks == more:
            return False
        besides = {edit.key for edit in other.edits if edit.asks is None}
        return besides <= self.key and all(asks[name] <= amount for name, amount in more.items())

    @property
    def shape(self) -> frozenset[str]:
        """What kind of changes it makes, whatever values they accept."""
        return frozenset(e.shape or e.key for e in self.changes)


def applied(edits: Iterable[RemedyEdit], case: Case) -> tuple[Pod, ClusterView]:
    """The pod and the cluster after all of them."""
    pod, view = case.pod, case.view
    for edit in edits:
        pod, view = edit.on_pod(pod), edit.on_view(view)
    return pod, view
