"""What to do, tried on the engine before it is offered, cheapest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.cluster.scheduling import Decision, schedule_on
from tonnage.decide.cluster.view import View
from tonnage.diagnose.case import Case
from tonnage.diagnose.edits import Edit, edits_for
from tonnage.diagnose.patch import patch_of
from tonnage.model.cluster import Pod
from tonnage.model.json import JsonObject
from tonnage.model.verdict import Remedy

_MOST_TRIALS: Final = 24
_MOST_OFFERED: Final = 6
_MOST_NAMED: Final = 8
_TOGETHER_COST: Final = 10
"""What needing several changes at once adds for each but the first."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Edits that together answer all reasons of some node."""

    edits: tuple[Edit, ...]

    @property
    def cost(self) -> int:
        return sum(e.cost for e in self.edits) + _TOGETHER_COST * (len(self.edits) - 1)

    @property
    def key(self) -> frozenset[str]:
        return frozenset(e.key for e in self.edits)


def remedies_for(case: Case) -> tuple[Remedy, ...]:
    """Remedies for a pod that no node takes, each of which makes the engine place it."""
    found: list[tuple[int, Remedy]] = []
    waits: list[_Plan] = []
    for plan in _plans(case)[:_MOST_TRIALS]:
        pod, view = _applied(plan.edits, case)
        decision = schedule_on(pod, view)
        if decision.chosen is None:
            continue
        if len(plan.edits) == 1 and plan.edits[0].waits_for:
            waits.append(plan)
        else:
            found.append((plan.cost, _remedy(plan, case, pod, decision)))
    found += _waiting(waits, case)
    found += _by_priority(case)
    found.sort(key=lambda pair: pair[0])
    return tuple(remedy for _, remedy in found[:_MOST_OFFERED])


def _waiting(plans: list[_Plan], case: Case) -> list[tuple[int, Remedy]]:
    """Waiting is one remedy, whichever of several pods it is for."""
    if len(plans) == 1:
        pod, view = _applied(plans[0].edits, case)
        return [(plans[0].cost, _remedy(plans[0], case, pod, schedule_on(pod, view)))]
    named = [plan.edits[0].waits_for for plan in plans]
    told = ", ".join(named[:_MOST_NAMED]) + (" …" if len(named) > _MOST_NAMED else "")
    remedy = Remedy(f"wait for one of these to end, or end it: {told}", "fits the node that it leaves")
    return [(plans[0].cost, remedy)] if plans else []


def _plans(case: Case) -> list[_Plan]:
    """One plan for each distinct way in which a node could be made to take the pod, cheapest first."""
    plans: dict[frozenset[str], _Plan] = {}
    for verdict in case.nodes:
        edits = edits_for(case.pod, case.view.nodes[verdict.node], verdict.reasons)
        if edits:
            plan = _Plan(edits)
            plans.setdefault(plan.key, plan)
    return sorted(plans.values(), key=lambda plan: (plan.cost, sorted(plan.key)))


def _applied(edits: Iterable[Edit], case: Case) -> tuple[Pod, View]:
    pod, view = case.pod, case.view
    for edit in edits:
        pod, view = edit.on_pod(pod), edit.on_view(view)
    return pod, view


def _remedy(plan: _Plan, case: Case, pod: Pod, decision: Decision) -> Remedy:
    action = "; and ".join(edit.action for edit in plan.edits)
    effect = f"fits {decision.chosen}"
    if len(plan.edits) > 1:
        alone = [edit for edit in plan.edits if _suffices(edit, case)]
        effect += " (all of it is needed: no part alone is enough)" if not alone else ""
    return Remedy(action, effect, patch_of(case.pod, pod))


def _suffices(edit: Edit, case: Case) -> bool:
    pod, view = _applied((edit,), case)
    return schedule_on(pod, view).chosen is not None


def _by_priority(case: Case) -> list[tuple[int, Remedy]]:
    """The lowest priority class with which the pod would push others aside, and whom."""
    if case.decision.nominated is not None or not case.pod.may_preempt:
        return []
    classes = sorted(case.view.snapshot.priority_classes, key=lambda cls: (cls.value, cls.name))
    for cls in classes:
        if cls.value <= case.pod.priority or not cls.may_preempt or cls.name.startswith("system-"):
            continue
        raised = replace(case.pod, priority=cls.value, priority_class=cls.name)
        decision = schedule_on(raised, case.view)
        if decision.nominated is not None:
            victims = ", ".join(f"{v.namespace}/{v.name}" for v in decision.victims)
            effect = f"fits {decision.nominated} after evicting {victims}"
            patch: JsonObject = {"spec": {"priorityClassName": cls.name}}
            return [(50, Remedy(f"use the priority class {cls.name}", effect, patch))]
    return []
