"""Usage of devices, pods and nodes out of what agents serve, and for the rest out of what they reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tonnage.diagnose.agent_silence import report_age
from tonnage.model.node.device_usage import (
    DevicePage,
    DeviceReading,
    DeviceUsage,
    NodeUsage,
    PodReading,
    PodUsage,
)
from tonnage.model.node.gpu_status import GpuDevice, GpuStatus

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class FleetUsage:
    """All of them at one moment."""

    devices: tuple[DeviceUsage, ...] = ()
    pods: tuple[PodUsage, ...] = ()
    nodes: tuple[NodeUsage, ...] = ()


def fleet_usage(
    reports: Mapping[str, GpuStatus],
    pages: Mapping[str, DevicePage],
    now: datetime | None = None,
    namespace: str | None = None,
) -> FleetUsage:
    """The usage by reports and pages of nodes. With `namespace`, of the devices that its pods hold."""
    devices = tuple(
        usage
        for node in sorted({*reports, *pages})
        for usage in _devices(node, reports.get(node), pages.get(node), now)
    )
    readings = [reading for page in pages.values() for reading in page.pods]
    if namespace is not None:
        prefix = f"{namespace}/"
        devices = tuple(
            usage for usage in devices if any(pod.startswith(prefix) for pod in usage.reading.holders)
        )
    pods = tuple(
        usage for usage in _pods(devices, readings) if namespace in (None, usage.pod.partition("/")[0])
    )
    return FleetUsage(devices, pods, tuple(_nodes(devices)))


def _devices(
    node: str, report: GpuStatus | None, page: DevicePage | None, now: datetime | None
) -> Iterator[DeviceUsage]:
    """By its page; of a node without one, by its report."""
    reported = {device.uuid: device for device in report.devices} if report is not None else {}
    if page is not None and page.devices:
        used = _holders(page.pods)
        for reading in page.devices:
            device = reported.get(reading.uuid, GpuDevice(reading.uuid))
            holders = dict.fromkeys((*reading.holders, *used.get((reading.uuid, reading.instance), ())))
            if not holders and not reading.instance:
                holders = dict.fromkeys(_names(device))
            yield DeviceUsage(node, replace(reading, holders=tuple(holders)), device.healthy, device.reason)
        return
    age = report_age(report, now).age
    age_s = None if age is None else age.total_seconds()
    for device in reported.values():
        reading = DeviceReading(
            device.uuid,
            index=device.index,
            product=device.product,
            used_mib=device.used_mib,
            memory_mib=device.memory_mib or None,
            holders=tuple(dict.fromkeys(_names(device))),
        )
        yield DeviceUsage(node, reading, device.healthy, device.reason, age_s)


def _names(device: GpuDevice) -> list[str]:
    return [f"{holder.namespace}/{holder.pod}" for holder in device.holders]


def _holders(pods: Iterable[PodReading]) -> Mapping[tuple[str, str], list[str]]:
    by_device: dict[tuple[str, str], list[str]] = {}
    for pod in pods:
        by_device.setdefault((pod.uuid, pod.instance), []).append(f"{pod.namespace}/{pod.pod}")
    return by_device


def _pods(devices: Sequence[DeviceUsage], readings: Iterable[PodReading]) -> Iterator[PodUsage]:
    """Each pod that holds a device. What it uses is its own reading, or all of a device that it has alone."""
    own = {(f"{r.namespace}/{r.pod}", r.uuid, r.instance): r for r in readings}
    held: dict[str, list[DeviceUsage]] = {}
    for usage in devices:
        for pod in usage.reading.holders:
            held.setdefault(pod, []).append(usage)
    for pod, usages in held.items():
        parts = [_part(pod, usage, own) for usage in usages]
        yield PodUsage(
            pod,
            tuple(dict.fromkeys(usage.node for usage in usages)),
            len(usages),
            gpus=_sum(part.compute_ratio for part in parts),
            used_mib=_sum(None if part.memory_bytes is None else part.memory_bytes / _MIB for part in parts),
            power_w=_sum(u.reading.power_w if len(u.reading.holders) == 1 else None for u in usages),
            shared=any(len(usage.reading.holders) > 1 for usage in usages),
            attribution=", ".join(sorted({part.attribution for part in parts} - {""})),
        )


def _part(pod: str, usage: DeviceUsage, own: Mapping[tuple[str, str, str], PodReading]) -> PodReading:
    reading = usage.reading
    if (measured := own.get((pod, reading.uuid, reading.instance))) is not None:
        return measured
    alone = len(reading.holders) == 1
    ratio = reading.utilization / 100 if alone and reading.utilization is not None else None
    memory = reading.used_mib * _MIB if alone and reading.used_mib is not None else None
    return PodReading("", pod, reading.uuid, reading.instance, ratio, memory, "exact" if alone else "")


def _nodes(devices: Sequence[DeviceUsage]) -> Iterator[NodeUsage]:
    by_node: dict[str, list[DeviceUsage]] = {}
    for usage in devices:
        by_node.setdefault(usage.node, []).append(usage)
    for node, usages in by_node.items():
        readings = [usage.reading for usage in usages]
        # Of a divided GPU each instance repeats its power.
        power = {reading.uuid: reading.power_w for reading in readings}
        busy = [reading.utilization for reading in readings if reading.utilization is not None]
        ages = [usage.age_s for usage in usages if usage.age_s is not None]
        warm = [reading.temperature_c for reading in readings if reading.temperature_c is not None]
        yield NodeUsage(
            node,
            len(usages),
            sum(bool(reading.holders) for reading in readings),
            sum(not usage.healthy for usage in usages),
            utilization=sum(busy) / len(busy) if busy else None,
            used_mib=_sum(reading.used_mib for reading in readings),
            memory_mib=_sum(reading.memory_mib for reading in readings),
            power_w=_sum(power.values()),
            temperature_c=max(warm, default=None),
            age_s=max(ages, default=None),
        )


def _sum(values: Iterable[float | None]) -> float | None:
    """Of those that are told; None where none is."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None
