"""What containers have that are being resized in place, as far as kubelet says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tonnage.model.kubernetes.cluster import HeldAmounts
from tonnage.reading.object_parts import ReadingProblems, amounts
from tonnage.wire import objects as w


def held_by(spec: w.PodSpec, status: w.PodStatus) -> tuple[HeldAmounts, ...]:
    """Amounts of containers that have something else than they ask."""
    statuses = [*status.container_statuses, *status.init_container_statuses]
    if not any(
        "resources" in container_status or "allocatedResources" in container_status
        for container_status in statuses
    ):
        return ()
    by_name = {container_status.get("name", ""): container_status for container_status in statuses}
    amounts_held = (
        _held(obj, by_name.get(obj.name, {})) for obj in (*spec.containers, *spec.init_containers)
    )
    return tuple(held for held in amounts_held if held is not None)


def _held(container: w.Container, status: Mapping[str, Any]) -> HeldAmounts | None:
    resources, allocated = status.get("resources"), status.get("allocatedResources")
    actual = resources.get("requests") or {} if isinstance(resources, dict) else None
    requested = container.resources.requests
    if actual in (None, requested) and allocated in (None, requested):
        return None
    notes = ReadingProblems()  # what nobody can read of it counts for nothing
    return HeldAmounts(
        container.name,
        amounts(allocated, "", notes) if isinstance(allocated, dict) else None,
        amounts(actual, "", notes) if isinstance(actual, dict) else None,
    )
