"""`NodeGPUStatus` as model values. Every field is optional; one of the wrong shape counts as absent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tonnage.model.gpu_status import DeviceHolder, GpuDevice, GpuStatus
from tonnage.wire import objects as w


def gpu_status_from(status: w.NodeGPUStatus) -> GpuStatus:
    """What the agent of a node says."""
    body = status.status
    resources = tuple(_objects(body.get("resources")))
    return GpuStatus(
        node=status.metadata.name,
        mode=_text(body.get("mode")),
        devices=tuple(_device(d) for d in _objects(body.get("devices"))),
        holders=tuple(_holder(h) for h in _objects(body.get("holders"))),
        problems=_texts(body.get("problems")),
        replicas={_text(r.get("name")): _whole(r.get("replicas")) or 1 for r in resources},
        single_requests=frozenset(
            _text(r.get("name")) for r in resources if r.get("failRequestsGreaterThanOne") is True
        ),
    )


def _device(device: Mapping[str, object]) -> GpuDevice:
    return GpuDevice(
        id=_text(device.get("uuid")),
        product=_text(device.get("product")),
        index=_whole(device.get("index")),
        resource=_text(device.get("resource")),
        memory_mib=_whole(device.get("memoryMiB")) or 0,
        used_mib=_whole(device.get("memoryUsedMiB")),
        utilisation=_whole(device.get("utilizationPercent")),
        health=_text(device.get("health")),
        health_reason=_text(device.get("reason")),
    )


def _holder(holder: Mapping[str, object]) -> DeviceHolder:
    return DeviceHolder(
        namespace=_text(holder.get("namespace")),
        pod=_text(holder.get("pod")),
        container=_text(holder.get("container")),
        resource=_text(holder.get("resource")),
        device_ids=_texts(holder.get("deviceIDs")),
    )


def _objects(value: object) -> Iterator[Mapping[str, object]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
