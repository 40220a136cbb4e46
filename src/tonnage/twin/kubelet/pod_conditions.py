"""GeneratePodReadyCondition and its like: a pod's conditions, in the kubelet's order and words. Pure.

Source: Kubernetes 1.35, pkg/kubelet/status/generate.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tonnage.twin.kubelet.containers.container_records import ContainerSlot, PodProgress
from tonnage.wire.objects import Pod

OWN: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
"""The kubelet's own conditions; all others of a pod are somebody else's."""
_TRUE: Final = {"status": "True"}
_DONE: Final = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}


def conditions_of(pod: Pod, progress: PodProgress, phase: str, now: str) -> list[dict[str, Any]]:
    """The kubelet's conditions. `progress.conditions` remembers their times and is brought up to date."""
    # Of a pod that goes before its containers are there, conditions stay as they were.
    shown_phase = "" if progress.ended and any(slot.untouched for slot in progress.main) else phase
    containers_ready = _containers_ready(progress, phase if progress.failure != ("", "") else shown_phase)
    fresh = (
        {"status": "True" if progress.sandbox and phase not in _DONE else "False"},
        _initialized(progress, phase),
        _gated(pod, containers_ready),
        containers_ready,
        _TRUE,
    )
    return [_dated(pod, progress, kind, condition, now) for kind, condition in zip(OWN, fresh, strict=True)]


def _containers_ready(progress: PodProgress, phase: str) -> dict[str, Any]:
    if phase in _DONE:
        return {"status": "False", "reason": _DONE[phase]}
    lasting = [*(slot for slot in progress.init if slot.sidecar), *progress.main]
    return _verdict("ContainersNotReady", "unready", [slot for slot in lasting if not slot.ready])


def _gated(pod: Pod, ready: dict[str, Any]) -> dict[str, Any]:
    """The pod's readiness: its containers', then its gates'."""
    if ready["status"] != "True":
        return ready
    statuses = {condition.type: condition.status for condition in pod.status.conditions}
    unready = []
    for kind in (str(gate.get("conditionType", "")) for gate in pod.spec.readiness_gates):
        if kind not in statuses:
            unready.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif statuses[kind] != "True":
            unready.append(f'the status of pod readiness gate "{kind}" is not "True", but {statuses[kind]}')
    if unready:
        return {"status": "False", "reason": "ReadinessGatesNotReady", "message": ", ".join(unready)}
    return _TRUE


def _initialized(progress: PodProgress, phase: str) -> dict[str, Any]:
    if phase == "Succeeded":
        return {"status": "True", "reason": "PodCompleted"}
    if any(slot.current is not None for slot in progress.main):
        return _TRUE
    undone = [slot for slot in progress.init if not (slot.started if slot.sidecar else slot.ready)]
    return _verdict("ContainersNotInitialized", "incomplete", undone)


def _verdict(reason: str, word: str, failing: Iterable[ContainerSlot]) -> dict[str, Any]:
    names = " ".join(slot.container.name for slot in failing)
    if not names:
        return _TRUE
    return {"status": "False", "reason": reason, "message": f"containers with {word} status: [{names}]"}


def _dated(pod: Pod, progress: PodProgress, kind: str, fresh: dict[str, Any], now: str) -> dict[str, Any]:
    before = progress.conditions.get(kind, {})
    since = before.get("lastTransitionTime", now) if before.get("status") == fresh["status"] else now
    # Explicit nulls: a strategic merge would keep a reason and message of before.
    gone: dict[str, Any] = {key: None for key in ("reason", "message") if key in before and key not in fresh}
    condition = {"type": kind, "lastTransitionTime": since, **gone, **fresh}
    progress.conditions[kind] = condition
    if not pod.metadata.generation:
        return condition
    return {**condition, "observedGeneration": pod.metadata.generation}
