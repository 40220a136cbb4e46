"""DefaultPreemption: which node to clear of which pods of lower priority.

Source: kube-scheduler 1.35 framework/preemption and plugins/defaultpreemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from tonnage.decide.kubernetes.matching import selector_matches
from tonnage.decide.kubernetes.scheduler import messages
from tonnage.decide.kubernetes.scheduler.filtering import Filtered, first_refusal
from tonnage.decide.kubernetes.scheduler.refusal import PluginRefusal
from tonnage.decide.kubernetes.scheduler.sampling import may_choose
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import DisruptionBudget, Pod

_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_PRIORITY_OFFSET: Final = 2**31


@dataclass(frozen=True, slots=True)
class PreemptionOutcome:
    """A node to clear and its victims, most important first; or why not, as the scheduler says it.

    `equals` are all nodes of which the scheduler may take any, among them `node`: they cost the same, or it
    looks at a part of those that could be cleared, and begins anywhere.
    `tried` is False when the pod may not preempt at all: what was nominated before stays so. `failed`: a
    plugin fails on the cleared node, and `message` is its error. `unknown`: a filter cannot know its answer.
    """

    node: str | None = None
    victims: tuple[Pod, ...] = ()
    equals: tuple[str, ...] = ()
    message: str = ""
    tried: bool = True
    failed: bool = False
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """A node that the pod fits once these pods have gone, of which budgets would keep `violations`."""

    node: str
    victims: tuple[Pod, ...]
    violations: int


@dataclass(slots=True)
class Trials:
    """What came of trying every node: candidates, or the texts of those that cannot be one, counted."""

    candidates: list[PreemptionCandidate] = field(default_factory=list)
    texts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    potential: int = 0
    """Nodes that a preemption may help."""
    equals: tuple[str, ...] = ()
    """Nodes of which any may be taken, beside those among the candidates that cost the same."""

    def add(self, outcome: PreemptionCandidate | PluginRefusal) -> None:
        """One more node."""
        if isinstance(outcome, PreemptionCandidate):
            self.candidates.append(outcome)
        elif outcome.fatal:
            self.errors += outcome.texts
        else:
            self.texts.update(outcome.texts)
            self.unknown += [outcome.unknown] if outcome.unknown else []

    def outcome(self, nodes: int) -> PreemptionOutcome:
        """The node that costs least to clear of so many, by upstream's order of preference."""
        if self.unknown:
            return PreemptionOutcome(unknown=tuple(dict.fromkeys(self.unknown)))
        if self.errors and not self.candidates:
            different = list(dict.fromkeys(self.errors))
            message = different[0] if len(different) == 1 else f"[{', '.join(different)}]"
            return PreemptionOutcome(message=message, tried=False, failed=True)
        if not self.candidates:
            return PreemptionOutcome(message=messages.fit_error(nodes, self.texts))
        best = min(self.candidates, key=lambda candidate: (cost(candidate), candidate.node))
        same = {candidate.node for candidate in self.candidates if cost(candidate) == cost(best)}
        more = self.equals if same.intersection(self.equals) else ()
        equals = sorted(dict.fromkeys((*more, *same)))  # quick where `more` is in order
        return PreemptionOutcome(best.node, best.victims, tuple(equals))


def any_of(pod: Pod, view: ClusterView, ranks: Mapping[str, int], potential: int) -> tuple[str, ...]:
    """Which candidates may be taken, given which costs least (the lowest rank) and how many nodes were tried.

    The scheduler looks at a part of them, and begins anywhere.
    """
    enough = looked_at(pod, view, potential)
    if len(ranks) <= enough:
        return tuple(name for name, rank in ranks.items() if rank == min(ranks.values()))
    return may_choose(view.asking_order, {name: -rank for name, rank in ranks.items()}, enough)


def looked_at(pod: Pod, view: ClusterView, potential: int) -> int:
    """At how many candidates the scheduler looks when so many nodes may be cleared.

    A hundred, or a tenth of the nodes (the least and the percentage of its profile).
    """
    settings = view.settings(pod)
    return max(settings.least_candidates, potential * settings.candidates_percent // 100)


def preempt(pod: Pod, view: ClusterView, filtered: Filtered) -> PreemptionOutcome:
    """The node to clear for the pod, node by node."""
    refusal = not_eligible(pod, view, filtered)
    if refusal:
        return PreemptionOutcome(message=refusal, tried=False)
    trials = Trials()
    for name, node in view.nodes.items():
        refusals = filtered.refusals.get(name, ())
        if filtered.conflict or not refusals or refusals[0].unresolvable:
            trials.texts[messages.NOT_HELPFUL] += 1
            continue
        trials.potential += 1
        if node.least_priority is None or node.least_priority >= pod.priority:
            trials.texts[messages.NO_VICTIMS] += 1
        else:
            trials.add(cleared(pod, node, view))
    places = sorted({cost(candidate) for candidate in trials.candidates})
    ranks = {candidate.node: places.index(cost(candidate)) for candidate in trials.candidates}
    trials.equals = any_of(pod, view, ranks, trials.potential) if ranks else ()
    return trials.outcome(len(view.nodes))


def not_eligible(pod: Pod, view: ClusterView, filtered: Filtered) -> str:
    """Why the pod may not preempt at all; empty when it may."""
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


def cleared(pod: Pod, node: NodeView, view: ClusterView) -> PreemptionCandidate | PluginRefusal:
    """SelectVictimsOnNode: clear the node of all lesser pods, then reprieve as many as leave room.

    Those that a budget protects are put back first, of each group the important first.
    """
    lesser = sorted((p for p in node.pods if p.priority < pod.priority), key=importance)
    current = node.without(lesser).since(node)
    refusal = first_refusal(pod, current, view.with_node(current))
    if refusal is not None:
        return refusal
    violating, others = _by_budget(lesser, view.snapshot.budgets)
    victims: list[Pod] = []
    violations = 0
    for potential_victim in (*violating, *others):
        restored = current.plus((potential_victim,))
        if first_refusal(pod, restored, view.with_node(restored)) is None:
            current = restored
            continue
        victims.append(potential_victim)
        violations += potential_victim in violating
    if not victims:
        return nobody_goes(node.name)
    return PreemptionCandidate(node.name, tuple(sorted(victims, key=importance)), violations)


def nobody_goes(node: str) -> PluginRefusal:
    """The pod fits although everybody is back, for plugins count anew what they count off and on again."""
    text = messages.NO_VICTIM_AT_ALL.format(node=node)
    return PluginRefusal("DefaultPreemption", (text,), unresolvable=True, reasons=(), fatal=True)


def importance(pod: Pod) -> tuple[int, datetime, str, str]:
    """Most important first: higher priority, then longer running; without a start time, just begun."""
    return -pod.priority, pod.status.start or _LATEST, pod.namespace, pod.name


def _by_budget(pods: Iterable[Pod], budgets: tuple[DisruptionBudget, ...]) -> tuple[list[Pod], list[Pod]]:
    """Pods whose going would break a disruption budget, and the others. A pod without labels is in none."""
    allowed = [budget.allowed for budget in budgets]
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        breaks = False
        for index, budget in enumerate(budgets):
            if covers(budget, pod):
                allowed[index] -= 1
                breaks = breaks or allowed[index] < 0
        (violating if breaks else others).append(pod)
    return violating, others


def covers(budget: DisruptionBudget, pod: Pod) -> bool:
    """Whether the budget counts the pod."""
    if not pod.labels or budget.namespace != pod.namespace or pod.name in budget.disrupted:
        return False
    selector = budget.selector
    return selector is not None and bool(selector.requirements) and selector_matches(selector, pod.labels)


def cost(candidate: PreemptionCandidate) -> tuple[int, int, int, int, float]:
    """Fewest broken budgets, lowest top victim, least priority in sum, fewest, latest started."""
    victims = candidate.victims
    top = max((p.priority for p in victims), default=-_PRIORITY_OFFSET)
    earliest = min((p.status.start or _LATEST for p in victims if p.priority == top), default=_LATEST)
    return (
        candidate.violations,
        top,
        sum(p.priority + _PRIORITY_OFFSET for p in victims),
        len(victims),
        -earliest.timestamp(),
    )
