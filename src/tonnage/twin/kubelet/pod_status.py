"""generateAPIPodStatus: a pod's status out of what its containers do. Pure.

Source: Kubernetes 1.35, pkg/kubelet/kubelet_pods.go (getPhase, convertToAPIContainerStatuses).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.twin.kubelet.containers.container_records import (
    CONTAINER_CREATING,
    POD_INITIALIZING,
    ContainerSlot,
    PodProgress,
)
from tonnage.twin.kubelet.containers.images import full_image, image_id
from tonnage.twin.kubelet.containers.restarts import starts_again
from tonnage.twin.kubelet.containers.runtime_port import RunningContainer
from tonnage.twin.kubelet.containers.security import user_of
from tonnage.twin.kubelet.pod_conditions import conditions_of
from tonnage.wire.objects import Container, Pod

_LOG_LINES: Final = 80
_LOG_BYTES: Final = 2048
_MESSAGE_PATH: Final = "/dev/termination-log"
_MESSAGE_BYTES: Final = 4096
KILLED: Final = 137


def phase_of(pod: Pod, progress: PodProgress) -> str:
    """Pending, Running, Succeeded or Failed."""
    if progress.failure != ("", ""):
        return "Failed"
    plain = [slot for slot in progress.init if not slot.sidecar]
    sidecars = [slot for slot in progress.init if slot.sidecar]
    if any(_ended_badly(slot) and not _restarts(pod, slot) for slot in plain):
        return "Failed"
    if progress.ended:
        return "Succeeded" if all(_last_code(slot) == 0 for slot in progress.main) else "Failed"
    begun = any(slot.current is not None for slot in progress.main)
    pending = any(slot.running or slot.untouched for slot in plain) or (
        not begun and any(slot.running and not slot.started for slot in sidecars)
    )
    if pending or any(slot.untouched for slot in (*sidecars, *progress.main)):
        return "Pending"
    if any(slot.running for slot in (*sidecars, *progress.main)):
        return "Running"
    if any(_restarts(pod, slot) for slot in progress.main):
        return "Running"
    return "Succeeded" if all(_last_code(slot) == 0 for slot in progress.main) else "Failed"


def _last_code(slot: ContainerSlot) -> int | None:
    """How the container ended the last time that it did."""
    ended = slot.current or slot.last
    return ended.exit_code if ended is not None else slot.past.get("exitCode")


def _ended_badly(slot: ContainerSlot) -> bool:
    return not slot.running and bool(_last_code(slot))


def _restarts(pod: Pod, slot: ContainerSlot) -> bool:
    return slot.again or starts_again(pod, slot.container, _last_code(slot) or 0)


def status_of(pod: Pod, progress: PodProgress, now: str) -> dict[str, Any]:
    """The status object. `progress.conditions` remembers transition times and is brought up to date."""
    phase = phase_of(pod, progress)
    mains = sorted(progress.main, key=lambda slot: slot.container.name)
    status: dict[str, Any] = {
        "phase": phase,
        "conditions": conditions_of(pod, progress, phase, now),
        "hostIP": progress.host_ip,
        "hostIPs": [{"ip": progress.host_ip}],
        "startTime": progress.start_time,
        "containerStatuses": _statuses(pod, progress, mains),
    }
    if progress.failure != ("", ""):
        status["reason"], status["message"] = progress.failure
    if pod.metadata.generation:
        status["observedGeneration"] = pod.metadata.generation
    if progress.init:
        status["initContainerStatuses"] = _statuses(pod, progress, progress.init)
    if progress.ephemeral:
        status["ephemeralContainerStatuses"] = _statuses(pod, progress, progress.ephemeral)
    if progress.pod_ip:
        status["podIP"] = progress.pod_ip
        status["podIPs"] = [{"ip": progress.pod_ip}]
    return status


def _statuses(pod: Pod, progress: PodProgress, slots: Sequence[ContainerSlot]) -> list[dict[str, Any]]:
    creating = POD_INITIALIZING if pod.spec.init_containers else CONTAINER_CREATING
    return [_container_status(slot, creating, ended=progress.ended) for slot in slots]


def _container_status(slot: ContainerSlot, creating: tuple[str, str], *, ended: bool) -> dict[str, Any]:
    """One entry of a list of container statuses."""
    container, newest = slot.container, slot.current or slot.last
    status: dict[str, Any] = {
        "name": container.name,
        "image": container.image if newest is None else full_image(container.image),
        "imageID": "" if newest is None else image_id(container.image),
        "ready": slot.ready and slot.part != "ephemeralContainers",
        "restartCount": slot.restarts,
        "state": _state(slot, creating, ended=ended),
        "lastState": _last_state(slot),
    }
    if slot.part != "ephemeralContainers":
        status["started"] = slot.started
    mounts = [_mount(mount) for mount in msgspec.to_builtins(container.volume_mounts)]
    if mounts:
        status["volumeMounts"] = mounts
    if newest is not None:
        status["containerID"] = f"containerd://{newest.id}"
        status |= _resources(container)
        status["user"] = {"linux": user_of(newest.config.pod, container)}
    return status


def _mount(mount: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {key: mount[key] for key in ("name", "mountPath", "readOnly") if key in mount}
    return {**fields, "recursiveReadOnly": "Disabled"} if fields.get("readOnly") else fields


def _resources(container: Container) -> dict[str, Any]:
    resources = msgspec.to_builtins(container.resources)
    requests = resources.get("requests")
    return {"resources": resources, **({"allocatedResources": requests} if requests else {})}


def _state(slot: ContainerSlot, creating: tuple[str, str], *, ended: bool) -> dict[str, Any]:
    current = slot.current
    if current is not None and current.running:
        return {"running": {"startedAt": timestamp(current.started_at)}}
    if current is not None:
        return {"terminated": terminated(current)}
    if slot.over:
        return {"terminated": slot.past}
    if ended:
        return {"terminated": _unknown_end()}
    reason, message = creating if slot.waiting == CONTAINER_CREATING else slot.waiting
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def _unknown_end() -> dict[str, Any]:
    return {
        "exitCode": KILLED,
        "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated",
    }


def _last_state(slot: ContainerSlot) -> dict[str, Any]:
    """How the container ended before; of what has ended for now, the kubelet keeps nothing older."""
    if slot.current is not None and not slot.current.running:
        return {}
    if slot.last is not None:
        return {"terminated": terminated(slot.last)}
    return {"terminated": slot.past} if slot.past and not slot.over else {}


def terminated(container: RunningContainer) -> dict[str, Any]:
    """How a container ended."""
    finished = container.finished_at or container.started_at
    message = _termination_message(container)
    return {
        "exitCode": container.exit_code or 0,
        "reason": "Error" if container.exit_code else "Completed",
        **({"message": message} if message else {}),
        "startedAt": timestamp(container.started_at),
        "finishedAt": timestamp(finished),
        "containerID": f"containerd://{container.id}",
    }


def _termination_message(container: RunningContainer) -> str:
    """What it left in its file for that, or the end of its log where the pod wants that of what failed."""
    spec = container.config.container
    left = container.config.files.own(spec.termination_message_path or _MESSAGE_PATH)
    if left or spec.termination_message_policy != "FallbackToLogsOnError" or not container.exit_code:
        return left[:_MESSAGE_BYTES].decode(errors="replace")
    lines = [line.text for line in container.log.since(0)][-_LOG_LINES:]
    return b"".join(lines)[-_LOG_BYTES:].decode(errors="replace")
