"""Inventory and configuration to the resources that a node offers."""

from __future__ import annotations

from tonnage.model.devices import Device, Inventory
from tonnage.model.names import GPU, DeviceId
from tonnage.model.sharing import (
    NodePlan,
    PlannedResource,
    PluginConfig,
    SharedPolicy,
    SharedResource,
    Slot,
)


def share(inventory: Inventory, config: PluginConfig) -> NodePlan:
    """Every device in exactly one resource: replicated where the configuration selects it, else exclusive.

    Without devices there are no resources. A selector that matches nothing is a problem of the plan, not a
    failure: the other devices are still offered.
    """
    free = {device.uuid: device for device in inventory.devices}
    offered: list[PlannedResource] = []
    problems: list[str] = []
    for shared in config.shared:
        chosen, missing = _selected(shared, tuple(free.values()))
        problems += [f"no device {name} for {shared.offered_as}" for name in missing]
        for device in chosen:
            del free[device.uuid]
        if chosen:
            offered.append(_replicated(shared, chosen, config))
    if free:
        slots = tuple(_slot(device, DeviceId(device.uuid)) for device in free.values())
        offered.append(PlannedResource(GPU, slots))
    return NodePlan(
        tuple(offered), {device.uuid: device.index for device in inventory.devices}, tuple(problems)
    )


def _selected(
    shared: SharedResource, devices: tuple[Device, ...]
) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """(devices that the selector names, selectors that name none); both in a stable order."""
    if shared.devices is None:
        return devices, ()
    if isinstance(shared.devices, int):
        lacking = shared.devices - len(devices)
        return devices[: shared.devices], (f"#{len(devices) + 1}",) if lacking > 0 else ()
    wanted = set(shared.devices)
    chosen = tuple(device for device in devices if {device.uuid, str(device.index)} & wanted)
    found = {name for device in chosen for name in (device.uuid, str(device.index))}
    return chosen, tuple(name for name in shared.devices if name not in found)


def _replicated(shared: SharedResource, devices: tuple[Device, ...], config: PluginConfig) -> PlannedResource:
    slots = tuple(
        _slot(device, DeviceId(device.uuid, replica))
        for device in devices
        for replica in range(shared.replicas)
    )
    return PlannedResource(
        shared.offered_as,
        slots,
        shared.replicas,
        config.fail_requests_greater_than_one,
        config.shared_policy is SharedPolicy.SPREAD_STRICT,
    )


def _slot(device: Device, slot_id: DeviceId) -> Slot:
    return Slot(str(slot_id), device.uuid, device.healthy, device.reason, device.numa_node)
