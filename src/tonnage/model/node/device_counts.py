"""Devices and replicas: what stands behind the amount that a node offers of a resource.

A shared device is offered several times, under its own name or with `.shared` behind it, and the scheduler
counts replicas. Whoever counts GPUs asks here. The node's agent tells it, else its labels do.
Source: NVIDIA GPU Feature Discovery, labels `<resource>.replicas`, `.product` (ending in -SHARED) and
`.count`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.model.kubernetes.cluster import Node
from tonnage.model.names import NVIDIA, SHARED_SUFFIX
from tonnage.model.node.gpu_status import GpuStatus

_SHARED_PRODUCT: Final = "-SHARED"
_MOST_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class DeviceCount:
    """What a node has of a resource: `amount` is what kubelet offers, `devices` what is behind it.

    `replicas` of each device; 1: exclusive. None of either: it is shared, and nobody tells how.
    """

    resource: str
    amount: int
    devices: int | None
    replicas: int | None = 1

    @property
    def shared(self) -> bool:
        """Whether the amount counts replicas."""
        return self.replicas != 1

    @property
    def noun(self) -> str:
        """What one of the devices is."""
        return "MIG device" if "/mig-" in self.resource else "GPU"

    def behind(self, count: int) -> tuple[int, int]:
        """(the fewest, the most) devices that so many of the resource may be.

        >>> DeviceCount("nvidia.com/gpu", 8, 2, 4).behind(5), DeviceCount("nvidia.com/gpu", 8, 8).behind(5)
        ((2, 2), (5, 5))
        """
        if not self.shared:
            return count, count
        fewest = 1 if self.replicas is None else -(-count // self.replicas)
        return fewest, count if self.devices is None else max(fewest, min(count, self.devices))

    def in_words(self, count: int | None = None) -> str:
        """So many of a shared resource as devices; None: all that the node offers.

        >>> DeviceCount("nvidia.com/gpu", 4, 1, 4).in_words(4)
        '4 nvidia.com/gpu are replicas of one GPU'
        >>> DeviceCount("nvidia.com/gpu", 8, 2, 4).in_words(2)
        '2 nvidia.com/gpu may be replicas of one GPU'
        """
        fewest, most = self.behind(self.amount if count is None else count)
        if count is None and self.devices is not None:
            fewest = most = self.devices
        verb = "are" if fewest == most else "may be"
        devices = f"one {self.noun}" if fewest == 1 else f"{fewest} {self.noun}s"
        return f"{self.amount if count is None else count} {self.resource} {verb} replicas of {devices}"


def device_count(node: Node, resource: str, status: GpuStatus | None = None) -> DeviceCount:
    """What stands behind a resource of a node; `status` is what its agent publishes."""
    amount = max(node.allocatable.get(resource, 0), 0)
    whole = max(node.capacity.get(resource, 0), amount)
    reported = _replicas_reported(status, resource) if status is not None else 0
    if status is not None and reported:
        devices = _devices_reported(status, resource) or _devices(whole, reported)
        return DeviceCount(resource, amount, devices, reported)
    replicas, count = _labelled(node, resource, whole)
    return DeviceCount(resource, amount, count if replicas is None else _devices(whole, replicas), replicas)


def _devices(amount: int, replicas: int | None) -> int | None:
    return None if replicas is None else -(-amount // replicas)


def _replicas_reported(status: GpuStatus, resource: str) -> int:
    """Of each device, as the agent says; an older one says so of its devices alone. 0: it says nothing."""
    own = (device.replicas for device in status.devices if device.resource == resource)
    return status.replicas.get(resource, 0) or max(own, default=0)


def _devices_reported(status: GpuStatus, resource: str) -> int:
    """Devices that the agent offers under the name."""
    parts = sum(part.resource == resource for device in status.devices for part in device.parts)
    return parts + sum(device.resource == resource and not device.parts for device in status.devices)


def _labelled(node: Node, resource: str, amount: int) -> tuple[int | None, int | None]:
    """(replicas of a device, devices) by the node's labels; None: not told."""
    base, renamed = resource.removesuffix(SHARED_SUFFIX), resource.endswith(SHARED_SUFFIX)
    if not base.startswith(f"{NVIDIA}/"):
        return (None if renamed else 1), None
    labels = node.labels
    replicas, count = (_number(labels.get(f"{base}.{word}", "")) for word in ("replicas", "count"))
    other_name = bool(node.capacity.get(base + SHARED_SUFFIX, 0)) and not renamed
    shared = renamed or labels.get(f"{base}.product", "").endswith(_SHARED_PRODUCT)
    shared = shared or (replicas > 1 and not other_name)
    if shared and replicas > 1:
        return replicas, None
    if count and amount > count and not other_name:
        return amount // count, count
    return (None, count or None) if shared else (1, None)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else 0
