"""A pod's status out of what its containers do. Pure.

Source: Kubernetes 1.36, pkg/kubelet/kubelet_pods.go (getPhase) and pkg/kubelet/status/generate.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tonnage.twin.kubelet.images import full_image
from tonnage.twin.kubelet.runtime import RunningContainer
from tonnage.wire.objects import Container, Pod
from tonnage.wire.timestamps import timestamp

CONTAINER_CREATING = ("ContainerCreating", "")
POD_INITIALIZING = ("PodInitializing", "")


@dataclass(slots=True)
class Slot:
    """A container of a pod: what runs or ran in it last, or why nothing does (`waiting`: reason, message)."""

    container: Container
    current: RunningContainer | None = None
    last: RunningContainer | None = None
    waiting: tuple[str, str] = CONTAINER_CREATING
    restarts: int = 0

    @property
    def running(self) -> bool:
        return self.current is not None and self.current.running

    @property
    def exit_code(self) -> int | None:
        """The exit code of what ended and is not waiting to be started again."""
        return self.current.exit_code if self.current is not None else None


@dataclass(slots=True)
class PodProgress:
    """All that a status says. `initialized`: every init container did its part; `sandbox`: it has an IP."""

    init: list[Slot]
    main: list[Slot]
    start_time: str
    host_ip: str
    pod_ip: str = ""
    sandbox: bool = False
    initialized: bool = False
    ended: bool = False
    conditions: dict[str, dict[str, Any]] = field(default_factory=dict)


def phase_of(pod: Pod, progress: PodProgress) -> str:
    """Pending, Running, Succeeded or Failed."""
    never = pod.spec.restart_policy == "Never"
    if not progress.initialized:
        failed = any(slot.exit_code for slot in progress.init if slot.container.restart_policy != "Always")
        return "Failed" if never and failed else "Pending"
    if any(slot.current is None and slot.last is None for slot in progress.main):
        return "Pending"
    if any(slot.running for slot in progress.main):
        return "Running"
    codes = [slot.exit_code for slot in progress.main]
    if pod.spec.restart_policy == "Always" or None in codes:
        return "Running"
    if not any(codes):
        return "Succeeded"
    return "Failed" if never else "Running"


def ended_phase(progress: PodProgress) -> str:
    """The phase of a pod that was told to end and whose containers have all ended."""
    failed = any(slot.exit_code for slot in (*progress.init, *progress.main)) or not progress.initialized
    return "Failed" if failed else "Succeeded"


def status_of(pod: Pod, progress: PodProgress, now: str) -> dict[str, Any]:
    """The status object. `progress.conditions` remembers transition times and is brought up to date."""
    phase = ended_phase(progress) if progress.ended else phase_of(pod, progress)
    status: dict[str, Any] = {
        "phase": phase,
        "conditions": _conditions(pod, progress, phase, now),
        "hostIP": progress.host_ip,
        "hostIPs": [{"ip": progress.host_ip}],
        "startTime": progress.start_time,
        "containerStatuses": [
            container_status(slot, initialized=progress.initialized) for slot in _by_name(progress.main)
        ],
    }
    if pod.metadata.generation:
        status["observedGeneration"] = pod.metadata.generation
    if progress.init:
        status["initContainerStatuses"] = [container_status(slot, initialized=True) for slot in progress.init]
    if progress.pod_ip:
        status["podIP"] = progress.pod_ip
        status["podIPs"] = [{"ip": progress.pod_ip}]
    return status


def _by_name(slots: Sequence[Slot]) -> list[Slot]:
    return sorted(slots, key=lambda slot: slot.container.name)


def container_status(slot: Slot, *, initialized: bool) -> dict[str, Any]:
    """One entry of containerStatuses or initContainerStatuses."""
    newest = slot.current or slot.last
    sidecar = slot.container.restart_policy == "Always"
    ready = slot.running or (slot.exit_code == 0 and not sidecar and _is_init(slot))
    status: dict[str, Any] = {
        "name": slot.container.name,
        "image": slot.container.image if newest is None else full_image(slot.container.image),
        "imageID": "" if newest is None else f"{full_image(slot.container.image)}@sha256:{newest.id}",
        "ready": ready,
        "started": slot.running,
        "restartCount": slot.restarts,
        "state": _state(slot, initialized=initialized),
        "lastState": {"terminated": _terminated(slot.last)} if slot.last is not None else {},
    }
    if newest is not None:
        status["containerID"] = f"containerd://{newest.id}"
    return status


def _is_init(slot: Slot) -> bool:
    current = slot.current
    return current is not None and any(
        container.name == slot.container.name for container in current.config.pod.spec.init_containers
    )


def _state(slot: Slot, *, initialized: bool) -> dict[str, Any]:
    current = slot.current
    if current is None:
        reason, message = slot.waiting
        if not initialized and slot.waiting == CONTAINER_CREATING:
            reason, message = POD_INITIALIZING
        return {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    if current.running:
        return {"running": {"startedAt": timestamp(current.started_at)}}
    return {"terminated": _terminated(current)}


def _terminated(container: RunningContainer) -> dict[str, Any]:
    finished = container.finished_at or container.started_at
    return {
        "exitCode": container.exit_code or 0,
        "reason": "Error" if container.exit_code else "Completed",
        "startedAt": timestamp(container.started_at),
        "finishedAt": timestamp(finished),
        "containerID": f"containerd://{container.id}",
    }


def _conditions(pod: Pod, progress: PodProgress, phase: str, now: str) -> list[dict[str, Any]]:
    unready = [slot.container.name for slot in progress.main if not slot.running]
    sidecars = [slot for slot in progress.init if slot.container.restart_policy == "Always"]
    unready += [slot.container.name for slot in sidecars if not slot.running]
    undone = [slot.container.name for slot in progress.init if not _init_done(slot)]
    ready = _verdict(
        bool(unready), "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    )
    initialized = _verdict(
        bool(undone) and not progress.initialized,
        "ContainersNotInitialized",
        f"containers with incomplete status: [{' '.join(undone)}]",
    )
    if phase in {"Succeeded", "Failed"}:
        why = "PodCompleted" if phase == "Succeeded" else "PodFailed"
        ready = {"status": "False", "reason": why}
        if phase == "Succeeded":
            initialized = {"status": "True", "reason": why}
    wanted = {
        "PodReadyToStartContainers": {"status": _truth(progress.sandbox)},
        "Initialized": initialized,
        "Ready": ready,
        "ContainersReady": ready,
        "PodScheduled": {"status": "True"},
    }
    return [_dated(pod, progress, kind, wanted[kind], now) for kind in wanted]


def _init_done(slot: Slot) -> bool:
    return slot.running if slot.container.restart_policy == "Always" else slot.exit_code == 0


def _truth(holds: bool) -> str:
    return "True" if holds else "False"


def _verdict(fails: bool, reason: str, message: str) -> dict[str, Any]:
    return {"status": "False", "reason": reason, "message": message} if fails else {"status": "True"}


def _dated(pod: Pod, progress: PodProgress, kind: str, wanted: dict[str, Any], now: str) -> dict[str, Any]:
    before = progress.conditions.get(kind, {})
    since = before.get("lastTransitionTime", now) if before.get("status") == wanted["status"] else now
    # Explicit nulls: a strategic merge would keep a reason and message of before.
    gone: dict[str, Any] = {key: None for key in ("reason", "message") if key in before and key not in wanted}
    condition = {"type": kind, "lastTransitionTime": since, **gone, **wanted}
    progress.conditions[kind] = condition
    if not pod.metadata.generation:
        return condition
    return {**condition, "observedGeneration": pod.metadata.generation}
