"""What agents reported of nodes is old where they are silent: say so to who relies on it."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.diagnose.agent_silence import silence
from tonnage.diagnose.case import Case, device_needs
from tonnage.model.reasons.reason import Reason


def reasons(case: Case) -> Iterator[Reason]:
    """One reason for the nodes that have what the pod needs; of one that fits, for those it may get."""
    needs = device_needs(case.pod)
    if not needs or case.decision.gates:
        return
    chosen = {case.decision.chosen, *case.candidates} if case.decision.chosen is not None else None
    nodes = [
        name
        for name in case.remarkable.silent
        if (chosen is None or name in chosen) and _has(case, name, needs)
    ]
    if nodes:
        yield silence(case.view.snapshot, nodes)


def _has(case: Case, name: str, needs: dict[str, int]) -> bool:
    capacity = case.view.nodes[name].node.capacity
    return any(capacity.get(resource, 0) > 0 for resource in needs)
