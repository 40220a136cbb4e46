"""Claims on nodes whose container runtime has CDI switched off, by which devices get into containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.case import Case
from tonnage.model.name_lists import listed
from tonnage.model.node.software import Switch
from tonnage.model.reasons.pod.claims import ClaimWithoutCdi
from tonnage.model.reasons.reason import Reason

_MOST_NODES: Final = 1024


def reasons(case: Case) -> Iterator[Reason]:
    """One reason for all nodes that would take the pod and whose agent says that CDI is off."""
    if not case.pod.claims:
        return
    statuses = case.view.snapshot.gpu
    off = [
        name
        for name in case.decision.feasible[:_MOST_NODES]
        if name in statuses and statuses[name].software.runtime.cdi is Switch.OFF
    ]
    if not off:
        return
    runtime = statuses[off[0]].software.runtime
    why = f" ({runtime.name} {runtime.version}: {runtime.cdi_reason})" if runtime.cdi_reason else ""
    yield ClaimWithoutCdi(
        subject=f"Pod {case.pod.namespace}/{case.pod.name}",
        message=f"CDI is off on {listed(off)}{why}: a claim's devices come by CDI, so its containers fail "
        "there "
        "with unresolvable CDI devices",
        remedy="switch CDI on in the container runtime of those nodes; tonnage doctor there says where",
        source="NodeGPUStatus",
        nodes=tuple(off),
    )
