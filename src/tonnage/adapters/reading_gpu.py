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
        devices=tuple(_device(device) for device in _objects(body.get("devices"))),
        problems=(*_refused_config(body.get("config")), *_texts(body.get("problems"))),
        replicas={_text(r.get("name")): _whole(r.get("replicas")) or 1 for r in resources},
        single_requests=frozenset(
            _text(r.get("name")) for r in resources if r.get("failRequestsGreaterThanOne") is True
        ),
        config=_source(body.get("config")),
    )


def _refused_config(config: object) -> Iterator[str]:
    if isinstance(config, dict) and _text(config.get("error")):
        yield f"configuration refused, {_source(config) or 'the last good one'} kept: {config['error']}"


def _source(config: object) -> str:
    return _text(config.get("source")) if isinstance(config, dict) else ""


def _device(device: Mapping[str, object]) -> GpuDevice:
    return GpuDevice(
        uuid=_text(device.get("uuid")),
        product=_text(device.get("product")),
        index=_whole(device.get("index")),
        resource=_text(device.get("resource")),
        replicas=_whole(device.get("replicas")) or 1,
        memory_mib=_whole(device.get("memoryMiB")) or 0,
        used_mib=_whole(device.get("memoryUsedMiB")),
        healthy=device.get("health") != "Unhealthy",
        reason=_text(device.get("reason")),
        holders=tuple(_holder(holder) for holder in _objects(device.get("holders"))),
    )


def _holder(holder: Mapping[str, object]) -> DeviceHolder:
    return DeviceHolder(
        namespace=_text(holder.get("namespace")),
        pod=_text(holder.get("pod")),
        container=_text(holder.get("container")),
        resource=_text(holder.get("resource")),
        ids=_texts(holder.get("ids")),
    )


def _objects(value: object) -> Iterator[Mapping[str, object]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
