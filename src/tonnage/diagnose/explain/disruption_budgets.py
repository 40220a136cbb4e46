"""Disruption budgets, which preemption breaks where nothing else clears a node."""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.decide.kubernetes.scheduler.preemption import covers
from tonnage.diagnose.wording import own
from tonnage.model.kubernetes.cluster import DisruptionBudget, Pod
from tonnage.model.name_lists import listed


def broken(victims: Sequence[Pod], budgets: Sequence[DisruptionBudget]) -> tuple[str, ...]:
    """Budgets, as `namespace/name`, of which more pods go than may; those that end already count for none."""
    going = [pod for pod in victims if not pod.status.terminating]
    over = (b for b in budgets if sum(covers(b, pod) for pod in going) > max(0, b.allowed))
    return tuple(sorted(f"{budget.namespace}/{budget.name}" for budget in over))


def breaking(names: Sequence[str], namespace: str) -> str:
    """What a sentence about victims ends with: empty when no budget is broken."""
    if not names:
        return ""
    shown = listed(own(name, namespace) for name in names)
    return f", which breaks the disruption budget{'s' if len(names) > 1 else ''} {shown}"
