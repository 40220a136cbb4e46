"""Which GPUs a configuration offers as claims: those are no extended resource, and the others no claim's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.sharing import ALL, PluginConfig
from tonnage.model.mig.layouts import DividedGpu
from tonnage.model.reasons.gpu.offers import ClaimedDeviceMissing


def claimed_devices(inventory: Inventory, config: PluginConfig) -> tuple[Device, ...]:
    """The GPUs that are offered as claims, in index order.

    >>> inventory = Inventory((Device("GPU-a", 0, "T4", 15360), Device("GPU-b", 1, "T4", 15360)))
    >>> [device.uuid for device in claimed_devices(inventory, PluginConfig(claimed=("1",)))]
    ['GPU-b']
    """
    if not config.claimed:
        return ()
    return tuple(device for device in inventory.devices if _is_claimed(device, config))


def without_claimed(inventory: Inventory, config: PluginConfig) -> Inventory:
    """What is left for extended resources; the same object where nothing is claimed."""
    if not config.claimed:
        return inventory
    devices = tuple(device for device in inventory.devices if not _is_claimed(device, config))
    return replace(inventory, devices=devices)


def without_partitioned(
    inventory: Inventory, gpus: Iterable[DividedGpu], config: PluginConfig
) -> tuple[Inventory, tuple[DividedGpu, ...]]:
    """What is left for layouts by label: MIG devices that are made for claims are not theirs to destroy."""
    left = without_claimed(inventory, config)
    uuids = {device.uuid for device in left.devices}
    return left, tuple(gpu for gpu in gpus if gpu.uuid in uuids)


def unknown_claimed(inventory: Inventory, config: PluginConfig) -> Iterator[ClaimedDeviceMissing]:
    """The selectors that name no GPU of the node."""
    names = {name for device in inventory.devices for name in _names(device)}
    for selector in dict.fromkeys(config.claimed):
        if selector != ALL and selector not in names:
            message = f"no GPU {selector} for claims"
            yield ClaimedDeviceMissing(message=message, selector=selector)


def _is_claimed(device: Device, config: PluginConfig) -> bool:
    return ALL in config.claimed or any(name in config.claimed for name in _names(device))


def _names(device: Device) -> tuple[str, str]:
    return str(device.index), device.uuid
