"""SCH-10: whether pods of lower priority would go for this one, which, and why not."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.decide.kubernetes.scheduler import messages
from tonnage.diagnose.blocking_pods import until
from tonnage.diagnose.case import Case
from tonnage.diagnose.explain.disruption_budgets import breaking, broken
from tonnage.diagnose.wording import own
from tonnage.model.name_lists import listed
from tonnage.model.reasons.pod.pods import Preemption, PreemptionNotAllowed, PreemptionNotHelpful
from tonnage.model.reasons.reason import Reason

_SOURCE = "DefaultPreemption"


def reasons(case: Case) -> Iterator[Reason]:
    """A node that would be cleared for the pod, or is being cleared; or why none is."""
    decision = case.decision
    if not decision.message or decision.gates or decision.held:
        return
    node = decision.nominated or (case.pod.status.nominated_node if decision.keeps_nomination else "")
    if node in case.view.nodes:
        yield _cleared(case, node)
    elif messages.NEVER_PREEMPTS in decision.message and _lesser(case):
        yield _never(case)
    elif _helpless(case):
        yield _not_helpful(case)


def _cleared(case: Case, node: str) -> Reason:
    pod, decision = case.pod, case.decision
    going = decision.victims or tuple(p for p in case.view.nodes[node].pods if p.status.terminating)
    victims = [f"{v.namespace}/{v.name}" for v in going]
    now = case.view.snapshot.now
    ends = [f" ({text})" if (text := until(victim, now)) else "" for victim in going]
    names = listed(own(name, pod.namespace) + end for name, end in zip(victims, ends, strict=True))
    verb = "will be" if decision.victims else "is being"
    budgets = broken(decision.victims, case.view.snapshot.budgets)
    return Preemption(
        subject=f"Node {node}",
        message=f"{node} {verb} cleared for it: {names} of lower priority must end"
        + breaking(budgets, pod.namespace),
        remedy="wait until they have ended",
        source=_SOURCE,
        victims=tuple(victims),
        budgets=tuple(budgets),
    )


def _never(case: Case) -> Reason:
    pod = case.pod
    by = f", by its priority class {pod.priority_class}" if pod.priority_class else ""
    return PreemptionNotAllowed(
        subject=f"Pod {pod.namespace}/{pod.name}",
        message=f"its preemptionPolicy is Never{by}: it waits until pods of lower priority end",
        remedy="wait, or let it preempt: preemptionPolicy PreemptLowerPriority",
        source=_SOURCE,
        priority=pod.priority,
        priority_class=pod.priority_class,
    )


def _not_helpful(case: Case) -> Reason:
    pod = case.pod
    return PreemptionNotHelpful(
        subject=f"Pod {pod.namespace}/{pod.name}",
        message=f"its priority of {pod.priority} does not help: no node would take it if other pods ended",
        remedy="address the nodes' reasons; a higher priority would change nothing",
        source=_SOURCE,
        priority=pod.priority,
    )


def _helpless(case: Case) -> bool:
    """Whether preemption helps on no node, though there are pods that it could push aside."""
    nodes = len(case.view.nodes)
    return f": {nodes} {messages.NOT_HELPFUL}" in case.decision.message and _lesser(case)


def _lesser(case: Case) -> bool:
    """Whether any node has a pod of lower priority."""
    priorities = (node.least_priority for node in case.view.nodes.values())
    return any(least is not None and least < case.pod.priority for least in priorities)
