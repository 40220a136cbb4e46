"""Plans that wait, made few: they differ only in whom to wait for, or in the values that they accept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.view import ClusterView
from tonnage.diagnose.case import Case
from tonnage.diagnose.remedies.edits_by_reason import widen
from tonnage.diagnose.remedies.patch import patch_of
from tonnage.diagnose.remedies.plan import RemedyPlan, applied
from tonnage.diagnose.remedies.remedy_edit import RemedyEdit
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.verdict import Remedy

_MOST_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class Merged:
    """Plans that stand alone, and remedies that stand for several, with the first of these."""

    alone: tuple[RemedyPlan, ...]
    together: tuple[tuple[RemedyPlan, Remedy], ...]


Words = Callable[[Pod, str, ClusterView], str]
"""What is to be said of a pod on a node, as the end of an effect."""


def waiting(plans: Iterable[RemedyPlan], done: Iterable[frozenset[str]], case: Case, words: Words) -> Merged:
    """The plans, of which each waits for one thing, merged; what `words` tells apart is not.

    Left out are those that change all that another one does, and more, and still wait; and those that need
    what one of `done`, changes without waiting, makes do with.
    """
    without = [*done]
    groups: dict[frozenset[str], dict[frozenset[str], RemedyPlan]] = {}
    for plan in plans:
        keys = frozenset(edit.key for edit in plan.changes)
        if not keys or not any(enough <= keys for enough in without):
            replica_words = words(applied(plan.edits, case)[0], plan.node, case.view)
            shape = plan.shape | ({replica_words} if replica_words else frozenset())
            groups.setdefault(shape, {}).setdefault(plan.key, plan)
    least = [shape for shape in groups if not any(other < shape for other in groups if other or not shape)]
    plan_groups = [[*groups[shape].values()] for shape in least]
    alone = tuple(group[0] for group in plan_groups if len(group) == 1)
    together = [(group[0], _any_of(group, case, words)) for group in plan_groups if len(group) > 1]
    return Merged(alone, tuple(together))


def _any_of(plans: list[RemedyPlan], case: Case, words: Words) -> Remedy:
    shown = [plan.waits[0].waits_for for plan in plans[:_MOST_NAMED]]
    listed = "; or ".join([*shown, *(["…"] if len(plans) > _MOST_NAMED else [])])
    changes = tuple(_for_all(edit, plans, case) for edit in plans[0].changes)
    pod, _ = applied(changes, case)
    endless = all(plan.waits[0].endless for plan in plans)
    last = f"end these: {listed}" if endless else f"wait for these to end, or end them: {listed}"
    action = "; and ".join([*(edit.action for edit in changes), last])
    effect = f"fits the node that they leave{words(pod, plans[0].node, case.view)}"
    return Remedy(action, effect, patch_of(case.pod, pod))


def _for_all(edit: RemedyEdit, plans: list[RemedyPlan], case: Case) -> RemedyEdit:
    """The change so that it does for the node of every plan."""
    if not edit.shape:
        return edit
    nodes = [case.view.nodes[plan.node].node for plan in plans]
    return widen(case.pod, *nodes) or edit
