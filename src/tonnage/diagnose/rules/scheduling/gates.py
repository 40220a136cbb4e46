"""Pods that scheduling gates hold back: by whom, and what that one says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.case import Case
from tonnage.model.kubernetes.workloads import QueuedWorkload
from tonnage.model.reasons.pod.pods import SchedulingGated
from tonnage.model.reasons.reason import Reason

_KUEUE: Final = "kueue.x-k8s.io"
_QUEUE: Final = f"{_KUEUE}/queue-name"
_OWNERS: Final = {
    _KUEUE: ("Kueue", "kubectl get workloads -n {namespace}: its message says which quota is short"),
    "volcano.sh": ("Volcano", "kubectl get podgroups -n {namespace}"),
    "grove.io": ("Grove", "kubectl get podgangs -n {namespace}"),
    "kai.scheduler": ("the KAI scheduler", "kubectl get podgroups -n {namespace}"),
    "workload.codeflare.dev": ("CodeFlare", "kubectl get appwrappers -n {namespace}"),
}
"""Who sets a gate, by the domain of its name, and where to look."""


def reasons(case: Case) -> Iterator[Reason]:
    """One reason for all gates of a pod."""
    pod, gates = case.pod, case.decision.gates
    if not gates:
        return
    named = [_OWNERS[domain] for domain in dict.fromkeys(map(_domain, gates)) if domain in _OWNERS]
    message = f"held back by scheduling gates: {', '.join(gates)}"
    remedy = "wait for the queue or quota that set the gate to remove it"
    if named:
        message += f"; {' and '.join(name for name, _ in named)} holds it until it admits it"
        remedy = "; ".join(look.format(namespace=pod.namespace) for _, look in named)
    queue = pod.labels.get(_QUEUE)
    workload = _workload(case)
    if workload is not None:
        queue = workload.queue or queue
        message += f"; its Workload {workload.name} in the queue {queue} {_state(workload)}"
    elif queue:
        message += f" (queue {queue})"
    yield SchedulingGated(
        subject=f"Pod {pod.namespace}/{pod.name}",
        message=message,
        remedy=remedy,
        source="spec.schedulingGates",
        gates=tuple(gates),
        owners=tuple(name for name, _ in named),
        queue=queue,
    )


def _workload(case: Case) -> QueuedWorkload | None:
    """Kueue's Workload for the pod, or for what made it."""
    pod = case.pod
    own = {("Pod", pod.name)} | ({(pod.owner.kind, pod.owner.name)} if pod.owner else set())
    candidates = (w for w in case.view.snapshot.queued if w.namespace == pod.namespace and w.owners & own)
    return next(candidates, None)


def _state(workload: QueuedWorkload) -> str:
    return f"waits: {workload.waits}" if workload.waits else "has its quota: the gate is about to be removed"


def _domain(gate: str) -> str:
    """The known domain of a gate's name, which may stand below it."""
    domain = gate.partition("/")[0]
    return next((owner for owner in _OWNERS if domain == owner or domain.endswith(f".{owner}")), domain)
