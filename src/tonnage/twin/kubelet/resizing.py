"""What a kubelet tells of pods whose resources change in place.

Source: Kubernetes 1.35, pkg/kubelet/events/resize.go, pkg/kubelet/allocation/allocation_manager.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tonnage.twin.kubelet.live_pod import LivePod
from tonnage.wire.objects import Container, Pod


def tell_of_resize(live: LivePod, pod: Pod, pending: tuple[str, str] | None) -> None:
    """Say that the pod's new resources are in force, or (`pending`: reason, message) why they wait."""
    if pending is None:
        live.tell("Normal", "ResizeStarted", f"Pod resize started: {_summary(pod)}")
        live.tell("Normal", "ResizeCompleted", f"Pod resize completed: {_summary(pod)}")
        return
    reason, why = pending
    live.tell("Warning", f"Resize{reason}", f"Pod resize {reason}: {_summary(pod, why)}")


def _summary(pod: Pod, error: str = "") -> str:
    """The resources that the pod asks for, as JSON."""
    told: dict[str, Any] = {}
    if pod.spec.init_containers:
        told["initContainers"] = _resources(pod.spec.init_containers)
    told["containers"] = _resources(pod.spec.containers)
    told["generation"] = pod.metadata.generation
    if error:
        told["error"] = error
    return msgspec.json.encode(told).decode()


def _resources(containers: Iterable[Container]) -> list[dict[str, Any]]:
    found = []
    for container in containers:
        given: dict[str, Any] = msgspec.to_builtins(container.resources)
        amounts = {
            part: dict(sorted(given[part].items())) for part in ("limits", "requests") if given.get(part)
        }
        found.append({"name": container.name, "resources": amounts})
    return found
