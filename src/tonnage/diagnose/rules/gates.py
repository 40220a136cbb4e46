"""Pods that scheduling gates hold back: by whom, and what that one says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.case import Case
from tonnage.model.verdict import Code, Layer, Reason

_KUEUE: Final = "kueue.x-k8s.io"
_QUEUE: Final = f"{_KUEUE}/queue-name"
_OWNERS: Final = {
    _KUEUE: ("Kueue", "kubectl get workloads -n {namespace}: its message says what quota is short"),
    "volcano.sh": ("Volcano", "kubectl get podgroups -n {namespace}"),
    "grove.io": ("Grove", "kubectl get podgangs -n {namespace}"),
    "kai.scheduler": ("the KAI scheduler", "kubectl get podgroups -n {namespace}"),
    "workload.codeflare.dev": ("CodeFlare", "kubectl get appwrappers -n {namespace}"),
}
"""Who sets a gate, by the domain of its name, and where to look."""


def findings(case: Case) -> Iterator[Reason]:
    """One reason for all gates of a pod."""
    pod, gates = case.pod, case.decision.gates
    if not gates:
        return
    named = [_OWNERS[domain] for domain in dict.fromkeys(map(_domain, gates)) if domain in _OWNERS]
    told = f"held back by scheduling gates: {', '.join(gates)}"
    remedy = "whoever set the gate (a queue, a quota) takes it away when its time has come"
    if named:
        told += f"; {' and '.join(name for name, _ in named)} holds it until it admits it"
        remedy = "; ".join(look.format(namespace=pod.namespace) for _, look in named)
    if queue := pod.labels.get(_QUEUE):
        told += f" (queue {queue})"
    yield Reason(
        Code.GATED,
        Layer.SCHEDULER,
        f"Pod {pod.namespace}/{pod.name}",
        told,
        {"gates": [*gates], "owners": [name for name, _ in named], "queue": queue},
        remedy,
        "spec.schedulingGates",
        lasting=False,
    )


def _domain(gate: str) -> str:
    """The known domain of a gate's name, which may stand below it."""
    domain = gate.partition("/")[0]
    return next((known for known in _OWNERS if domain == known or domain.endswith(f".{known}")), domain)
