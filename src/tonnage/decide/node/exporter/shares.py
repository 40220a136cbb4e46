"""Who has which part of a device: containers by the replicas that they hold, MIG devices by their slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.decide.node.exporter.holders import DeviceKey, device_key, held_devices
from tonnage.model.catalog.mig import mig_model
from tonnage.model.devices.inventory import Device
from tonnage.model.devices.sharing import Hold, HoldKind
from tonnage.model.node.pod_usage import DeviceUser
from tonnage.model.node.telemetry import DeviceEntity, InstanceEntity

_SLICES: Final = 7
"""Of a GPU that the catalogue does not have."""
Replicas = Mapping[tuple[str, str], int]
"""Into how many replicas a device is divided, by resource and the UUID in its ids; absent: it is not."""


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """What a container has of a device: `share` of it by replicas, `part` of what is used of it.

    Parts of the containers of a device sum to 1, shares to 1 at most: nobody may hold a replica. `alone`:
    nobody else has a part.
    """

    user: DeviceUser
    share: float
    part: float
    alone: bool


Shares = Mapping[DeviceKey, tuple[DeviceShare, ...]]


def shares_of(holds: Iterable[Hold], entities: Iterable[DeviceEntity], replicas: Replicas) -> Shares:
    """By device. An id that is listed twice for a container, as for each NUMA node, counts once."""
    every = tuple(entities)
    by_key = {device_key(entity): entity for entity in every}
    ids: dict[DeviceKey, dict[tuple[DeviceUser, str], int]] = {}
    for hold, device, key in held_devices(holds, every):
        if key in by_key:
            user = _user(hold, by_key[key])
            offered = replicas.get((hold.resource, device.name), 1) if device.replica else 1
            ids.setdefault(key, {})[user, f"{device.name}::{device.replica}"] = offered
    return {key: _shares(of_device) for key, of_device in ids.items()}


def _shares(ids: Mapping[tuple[DeviceUser, str], int]) -> tuple[DeviceShare, ...]:
    held = Counter(user for user, _ in ids)
    total = held.total()
    offered = max(total, *ids.values())
    return tuple(
        DeviceShare(user, count / offered, count / total, alone=len(held) == 1)
        for user, count in held.items()
    )


def _user(hold: Hold, entity: DeviceEntity) -> DeviceUser:
    claim = hold.kind is HoldKind.CLAIM
    names = ("", hold.resource) if claim else (hold.resource, "")
    if isinstance(entity, InstanceEntity):
        part = (entity.gpu.uuid, str(entity.gpu_instance), entity.profile)
        return DeviceUser(hold.namespace, hold.pod, hold.container, *part, *names)
    return DeviceUser(hold.namespace, hold.pod, hold.container, entity.uuid, "", "", *names)


def fractions_of(device: Device) -> Mapping[int, float]:
    """Which part of the GPU each of its GPU instances is: by compute or by memory slices, what is more.

    They sum to 1 at most. 4g and 3g together would be more: then all are scaled.

    >>> from tonnage.model.devices.inventory import MigDevice
    >>> parts = [MigDevice(f"MIG-{n}", n, f"{n}g", n, 0, 40_192, gpu_slices=n) for n in (3, 4)]
    >>> gpu = Device("GPU-0", 0, "NVIDIA A100-SXM4-80GB", 80_384, migs=tuple(parts))
    >>> {instance: round(part, 3) for instance, part in fractions_of(gpu).items()}
    {3: 0.467, 4: 0.533}
    """
    model = mig_model(device.product, [part.profile for part in device.migs])
    slices = _SLICES if model is None else model.compute
    parts = {
        part.gpu_instance: max(part.gpu_slices / slices, part.memory_mib / max(device.memory_mib, 1))
        for part in device.migs
    }
    scale = max(1.0, sum(parts.values()))
    return {instance: part / scale for instance, part in parts.items()}
