"""KUB-3: the scheduler does not look at NUMA nodes; the kubelet of the node that it takes does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tonnage.diagnose.case import Case
from tonnage.diagnose.explain.nodes.alignment import alignment_unknown, kubelet_reasons, takers, who_takes
from tonnage.model.name_lists import listed
from tonnage.model.reasons.messages.symptoms import TopologyAffinity
from tonnage.model.reasons.pod.kubelet import NumaUndecided
from tonnage.model.reasons.reason import Reason

_MOST_CANDIDATES: Final = 16


def candidates_of(case: Case) -> tuple[str, ...]:
    """The node that the scheduler takes, or those of which it may take any."""
    decision = case.decision
    if decision.chosen is None:
        return ()
    return case.candidates[:_MOST_CANDIDATES] or (decision.chosen,)


def kubelet_takes(case: Case, name: str) -> bool:
    """Whether nothing says that the node's kubelet would refuse the pod."""
    return not kubelet_reasons(case.pod, case.view.nodes[name], case.view)


def reasons(case: Case) -> Iterator[Reason]:
    """That kubelet would refuse the pod where the scheduler puts it, or that nobody can tell."""
    names = candidates_of(case)
    reasons_by_node = {name: kubelet_reasons(case.pod, case.view.nodes[name], case.view) for name in names}
    refusing = tuple(name for name in names if reasons_by_node[name])
    if refusing:
        yield _refusal(case, refusing, reasons_by_node[refusing[0]][0])
        return
    for name in names:
        why = alignment_unknown(case.pod, case.view.nodes[name], case.view.snapshot.gpu.get(name))
        if why:
            yield NumaUndecided(
                subject=f"Node {name}",
                message=f"on {name}, {why}",
                remedy="let the node's agent report kubelet's policies and devices (NodeGPUStatus)",
                source="NodeGPUStatus",
            )
            return


def _refusal(case: Case, refusing: tuple[str, ...], first: TopologyAffinity) -> Reason:
    fine = takers(case.pod, tuple(n for n in case.decision.feasible if n not in refusing), case.view)
    may = "takes" if len(candidates_of(case)) == 1 else "may take"
    owner = case.pod.owner
    again = f"; it would stay Failed, and its {owner.kind} would create another" if owner is not None else ""
    message = (
        f"the scheduler, which ignores NUMA nodes, {may} {listed(refusing)}, and there "
        f"{first.message}{again}{who_takes(fine)}"
    )
    return replace(
        first,
        subject=f"Pod {case.pod.namespace}/{case.pod.name}",
        message=message,
        nodes=tuple(refusing),
        others=tuple(fine),
    )
