"""An inventory without what a change of the MIG layout works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tonnage.model.devices.inventory import Device, Inventory

CHANGING: Final = "its MIG layout is being changed"


def without_devices_in_change(
    inventory: Inventory, instances_left: Mapping[str, tuple[int, ...]]
) -> Inventory:
    """The same with these GPUs (by uuid) not to be used, but for the GPU instances that stay, by their ids.

    >>> without_devices_in_change(Inventory((Device("GPU-0", 0, "x", 1),)), {"GPU-0": ()}).devices[0].healthy
    False
    """
    if not instances_left:
        return inventory
    devices = tuple(
        _without(device, frozenset(instances_left[device.uuid]))
        if device.uuid in instances_left and device.healthy
        else device
        for device in inventory.devices
    )
    return replace(inventory, devices=devices)


def _without(device: Device, stay: frozenset[int]) -> Device:
    migs = tuple(
        mig if mig.gpu_instance in stay or not mig.healthy else replace(mig, healthy=False, reason=CHANGING)
        for mig in device.migs
    )
    return replace(device, migs=migs, healthy=bool(stay), reason="" if stay else CHANGING)
