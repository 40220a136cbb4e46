"""What nodes' agents publish, out of its lines; how GPUs of a kind of node are joined is held once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final

import msgspec

from tonnage.adapters.snapshots.fast_dataclasses import quickly
from tonnage.model.node.gpu_status import DeviceHolder, DeviceLinks, DevicePart, GpuDevice, GpuStatus
from tonnage.reading.gpu_status import gpu_status_from, links_from, parts_from
from tonnage.reading.object_parts import moment
from tonnage.wire import objects as w

_NONE: Final = msgspec.Raw(b"[]")
_NULL: Final = msgspec.Raw(b"null")
MOST_SHARED: Final = 50_000
"""So much of a sort is remembered; what was not met for longest goes first."""


class _Holder(w.Wire):
    namespace: str = ""
    pod: str = ""
    container: str = ""
    resource: str = ""
    ids: list[str] = msgspec.field(default_factory=list)


class _Device(w.Wire):
    uuid: str = ""
    product: str = ""
    index: int | None = None
    resource: str = ""
    replicas: int = 1
    memory_mib: int = msgspec.field(name="memoryMiB", default=0)
    memory_used_mib: int | None = msgspec.field(name="memoryUsedMiB", default=None)
    health: str = ""
    reason: str = ""
    holders: list[_Holder] = msgspec.field(default_factory=list)
    compute_capability: str = ""
    pci_bus_id: str = msgspec.field(name="pciBusID", default="")
    numa_node: int | None = None
    links: msgspec.Raw = _NONE
    mig_devices: msgspec.Raw = _NONE
    mig_enabled: bool | None = None
    fabric: str = ""


class _Body(w.Wire):
    devices: list[_Device] = msgspec.field(default_factory=list)
    config: msgspec.Raw = _NULL
    resources: msgspec.Raw = _NULL
    problems: msgspec.Raw = _NULL
    runtime: msgspec.Raw = _NULL
    kubelet: msgspec.Raw = _NULL
    driver_version: msgspec.Raw = _NULL
    cuda_version: msgspec.Raw = _NULL
    claims: msgspec.Raw = _NULL
    fabric_waits_since: msgspec.Raw = _NULL
    heartbeat_at: str = ""


class _Meta(w.Wire):
    name: str = ""


class _Report(w.Wire):
    metadata: _Meta
    status: _Body = msgspec.field(default_factory=_Body)


_REST: Final = tuple(
    (name, key)
    for name, key in zip(_Body.__struct_fields__, _Body.__struct_encode_fields__, strict=True)
    if name not in ("devices", "heartbeat_at")
)
"""Fields and their keys."""
_device: Final = quickly(GpuDevice)
_report: Final = quickly(GpuStatus)
_COMMON: Final = tuple(
    part.name for part in fields(GpuStatus) if part.name not in ("node", "devices", "heartbeat")
)
"""What comes after these three."""


class Reports:
    """Reads reports of one snapshot; `once` gives of equal texts always the first."""

    def __init__(self, once: Callable[[str], str]) -> None:
        self._once = once
        self._links = lru_cache(MOST_SHARED)(_links)
        self._common = lru_cache(MOST_SHARED)(_common)
        self._report = msgspec.json.Decoder(_Report)

    def read(self, line: bytes) -> GpuStatus:
        """What a node's agent publishes. Raises msgspec.DecodeError."""
        report = self._report.decode(line)
        body = report.status
        devices = tuple([self._device(device) for device in body.devices])
        rest = (bytes(getattr(body, name)) for name, _ in _REST)
        return _report(report.metadata.name, devices, moment(body.heartbeat_at), *self._common(*rest))

    def _device(self, device: _Device) -> GpuDevice:
        once = self._once
        return _device(
            device.uuid,
            once(device.product),
            device.index,
            once(device.resource),
            device.replicas or 1,
            device.memory_mib,
            device.memory_used_mib,
            device.health != "Unhealthy",
            device.reason,
            tuple([self._holder(holder) for holder in device.holders]) if device.holders else (),
            once(device.compute_capability),
            once(device.pci_bus_id),
            device.numa_node,
            self._links(bytes(device.links)),
            self._parts(device.mig_devices),
            device.mig_enabled is True,
            once(device.fabric),
        )

    def _parts(self, text: msgspec.Raw) -> tuple[DevicePart, ...]:
        return parts_from(msgspec.json.decode(text)) if text is not _NONE else ()

    def _holder(self, holder: _Holder) -> DeviceHolder:
        namespace, resource = self._once(holder.namespace), self._once(holder.resource)
        return DeviceHolder(namespace, holder.pod, self._once(holder.container), resource, tuple(holder.ids))


def _links(text: bytes) -> tuple[DeviceLinks, ...]:
    return links_from(msgspec.json.decode(text))


def _common(*texts: bytes) -> tuple[Any, ...]:
    """What is not of the devices alone, out of the texts of `_REST`."""
    values = {key: msgspec.json.decode(text) for (_, key), text in zip(_REST, texts, strict=True)}
    read = gpu_status_from(w.NodeGPUStatus(metadata=w.ObjectMeta(), status=values))
    return tuple(getattr(read, name) for name in _COMMON)
