"""Default preemption: which node to clear of which pods of lower priority.

Source: kube-scheduler 1.35 framework/preemption and plugins/defaultpreemption.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tonnage.decide.cluster import messages
from tonnage.decide.cluster.filtering import Filtered, first_refusal
from tonnage.decide.cluster.matching import selector_matches
from tonnage.decide.cluster.refusal import Refusal
from tonnage.decide.cluster.view import NodeView, View
from tonnage.model.cluster import DisruptionBudget, Pod

_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_PRIORITY_OFFSET: Final = 2**31


@dataclass(frozen=True, slots=True)
class Preemption:
    """A node to clear and its victims, most important first; or why not, as the scheduler says it.

    `tried` is False when the pod may not preempt at all: what was nominated before stays so. `failed`: a
    plugin fails on the cleared node, and `message` is its error. `unknown`: a filter cannot know its answer.
    """

    node: str | None = None
    victims: tuple[Pod, ...] = ()
    message: str = ""
    tried: bool = True
    failed: bool = False
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    node: str
    victims: tuple[Pod, ...]
    violations: int


def preempt(pod: Pod, view: View, filtered: Filtered) -> Preemption:
    """The node that costs least to clear for the pod, by upstream's order of preference."""
    refusal = _not_eligible(pod, view, filtered)
    if refusal:
        return Preemption(message=refusal, tried=False)
    candidates: list[_Candidate] = []
    texts: list[str] = []
    errors: list[str] = []
    unknown: list[str] = []
    for name, node in view.nodes.items():
        refusals = filtered.refusals.get(name, ())
        if filtered.conflict or not refusals or refusals[0].unresolvable:
            texts.append(messages.NOT_HELPFUL)
            continue
        if node.least_priority is None or node.least_priority >= pod.priority:
            texts.append(messages.NO_VICTIMS)
            continue
        outcome = _try(pod, node, view)
        if isinstance(outcome, _Candidate):
            candidates.append(outcome)
        elif outcome.fatal:
            errors += outcome.texts
        else:
            texts += outcome.texts
            unknown += [outcome.unknown] if outcome.unknown else []
    if unknown:
        return Preemption(unknown=tuple(dict.fromkeys(unknown)))
    if errors and not candidates:
        different = list(dict.fromkeys(errors))
        message = different[0] if len(different) == 1 else f"[{', '.join(different)}]"
        return Preemption(message=message, tried=False, failed=True)
    if not candidates:
        return Preemption(message=messages.fit_error(len(view.nodes), texts))
    best = min(candidates, key=_cost)
    return Preemption(best.node, best.victims)


def _not_eligible(pod: Pod, view: View, filtered: Filtered) -> str:
    if not pod.may_preempt:
        return messages.NEVER_PREEMPTS
    name = pod.status.nominated_node
    node = view.nodes.get(name)
    if node is None:
        return ""
    refusals = filtered.refusals.get(name, ())
    if refusals and refusals[0].unresolvable:
        return ""
    leaving = (
        p for p in node.pods if p.status.terminating and p.status.preempted and p.priority < pod.priority
    )
    return messages.WAITS_FOR_VICTIMS if any(leaving) else ""


def _try(pod: Pod, node: NodeView, view: View) -> _Candidate | Refusal:
    """Clear the node of all lesser pods, then put back as many as still leave room, the important first."""
    lesser = sorted((p for p in node.pods if p.priority < pod.priority), key=_importance)
    current = node.without(lesser)
    refusal = first_refusal(pod, current, view.with_node(current))
    if refusal is not None:
        return refusal
    violating, others = _by_budget(lesser, view.snapshot.budgets)
    victims: list[Pod] = []
    violations = 0
    for candidate in (*violating, *others):
        restored = current.plus((candidate,))
        if first_refusal(pod, restored, view.with_node(restored)) is None:
            current = restored
            continue
        victims.append(candidate)
        violations += candidate in violating
    return _Candidate(node.name, tuple(sorted(victims, key=_importance)), violations)


def _importance(pod: Pod) -> tuple[int, datetime, tuple[str, str]]:
    """Most important first: higher priority, then longer running; without a start time, just begun."""
    return -pod.priority, pod.status.start or _LATEST, pod.key


def _by_budget(pods: Iterable[Pod], budgets: tuple[DisruptionBudget, ...]) -> tuple[list[Pod], list[Pod]]:
    """Pods whose going would break a disruption budget, and the others. A pod without labels is in none."""
    allowed = [budget.allowed for budget in budgets]
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        breaks = False
        for index, budget in enumerate(budgets):
            if _covers(budget, pod):
                allowed[index] -= 1
                breaks = breaks or allowed[index] < 0
        (violating if breaks else others).append(pod)
    return violating, others


def _covers(budget: DisruptionBudget, pod: Pod) -> bool:
    if not pod.labels or budget.namespace != pod.namespace or pod.name in budget.disrupted:
        return False
    selector = budget.selector
    return selector is not None and bool(selector.requirements) and selector_matches(selector, pod.labels)


def _cost(candidate: _Candidate) -> tuple[int, int, int, int, float, str]:
    """Fewest broken budgets, lowest top victim, least priority in sum, fewest, latest started, name."""
    victims = candidate.victims
    top = max((p.priority for p in victims), default=-_PRIORITY_OFFSET)
    earliest = min((p.status.start or _LATEST for p in victims if p.priority == top), default=_LATEST)
    return (
        candidate.violations,
        top,
        sum(p.priority + _PRIORITY_OFFSET for p in victims),
        len(victims),
        -earliest.timestamp(),
        candidate.node,
    )
