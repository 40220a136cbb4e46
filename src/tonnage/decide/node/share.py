"""Inventory and configuration to the resources that a node offers."""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.decide.node.access import absent_channels, access_to, obstacle
from tonnage.decide.node.claims.claimed import unknown_claimed, without_claimed
from tonnage.decide.node.mps.daemons import unshareable, uses_mps
from tonnage.decide.node.resource_units import DeviceUnit, parts_of, units_of
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import (
    Access,
    DeviceSlot,
    NodePlan,
    PlannedResource,
    PluginConfig,
    SharedPolicy,
    SharedResource,
)
from tonnage.model.names import ResourceName
from tonnage.model.reasons.gpu.offers import ConfigurationOverlooked, SharedDeviceMissing, SharedNameTaken
from tonnage.model.reasons.reason import Reason


def share(inventory: Inventory, config: PluginConfig) -> NodePlan:
    """Every device in one resource at most: replicated where the configuration selects it, else exclusive.

    Devices for claims are in none. Without devices there are no resources. A selector that matches nothing
    is a refusal of the plan, not a failure: the other devices are still offered. So is everything that is
    withheld.
    """
    access = access_to(inventory, config)
    units, withheld = units_of(without_claimed(inventory, config), config)
    refusals: list[Reason] = [ConfigurationOverlooked(message=remark) for remark in config.remarks]
    refusals += [*absent_channels(config, access), *withheld, *unknown_claimed(inventory, config)]
    free = {unit.uuid: unit for unit in units}
    chosen: list[tuple[SharedResource, tuple[DeviceUnit, ...]]] = []
    for shared in config.shared:
        candidates = tuple(unit for unit in free.values() if unit.name == shared.name)
        selected, missing = _selected(shared, candidates)
        refusals += [_missing_device(name, shared.offered_as) for name in missing]
        # The first entry that selects a device has it; one that MPS then refuses is not offered whole.
        for unit in selected:
            del free[unit.uuid]
        if uses_mps(config):
            refused = {
                unit.uuid: why for unit in selected if (why := unshareable(unit, shared.replicas)) is not None
            }
            refusals += refused.values()
            selected = tuple(unit for unit in selected if unit.uuid not in refused)
        if selected:
            chosen.append((shared, selected))
    exclusive: dict[ResourceName, list[DeviceUnit]] = {}
    for unit in free.values():
        exclusive.setdefault(unit.name, []).append(unit)
    slots = _Slots(inventory, config, access)
    offered: list[PlannedResource] = []
    for shared, selected in chosen:
        if shared.offered_as in exclusive:  # a MIG profile has that name, which no text could show
            duplicate = f"{shared.offered_as} is the name of other devices, too"
            message = f"{duplicate}: those that are shared under it are withheld"
            refusals.append(SharedNameTaken(message=message, resource=shared.offered_as))
        else:
            offered.append(slots.replicated(shared, selected))
    offered += [slots.exclusive(name, selected) for name, selected in exclusive.items()]
    whole_of = {mig.uuid: device.uuid for device, mig in parts_of(inventory)}
    return NodePlan(tuple(offered), tuple(refusals), whole_of, access)


def _missing_device(selector: str, resource: ResourceName) -> SharedDeviceMissing:
    message = f"no device {selector} for {resource}"
    return SharedDeviceMissing(message=message, selector=selector, resource=resource)


def _selected(
    shared: SharedResource, units: tuple[DeviceUnit, ...]
) -> tuple[tuple[DeviceUnit, ...], tuple[str, ...]]:
    """(devices that the selector names, selectors that name none); both in a stable order."""
    if shared.devices is None:
        return units, ()
    if isinstance(shared.devices, int):
        lacking = shared.devices - len(units)
        return units[: shared.devices], (f"#{len(units) + 1}",) if lacking > 0 else ()
    selectors = dict.fromkeys(shared.devices)
    chosen = tuple(unit for unit in units if any(map(unit.answers_to, selectors)))
    return chosen, tuple(name for name in selectors if not any(unit.answers_to(name) for unit in chosen))


class _Slots:
    """Makes the slots of resources."""

    def __init__(self, inventory: Inventory, config: PluginConfig, access: Access) -> None:
        self._inventory = inventory
        self._config = config
        self._access = access

    def exclusive(self, name: ResourceName, units: Sequence[DeviceUnit]) -> PlannedResource:
        return PlannedResource(name, tuple(map(self._slot, units)))

    def replicated(self, shared: SharedResource, units: Sequence[DeviceUnit]) -> PlannedResource:
        slots = tuple(  # there may be tens of thousands
            DeviceSlot(
                f"{slot.uuid}::{number}", slot.uuid, slot.healthy, slot.reason, slot.numa_node, slot.part_of
            )
            for slot in map(self._slot, units)
            for number in range(shared.replicas)
        )
        return PlannedResource(
            shared.offered_as,
            slots,
            shared.replicas,
            self._config.fail_requests_greater_than_one,
            self._config.shared_policy is SharedPolicy.SPREAD_STRICT,
        )

    def _slot(self, unit: DeviceUnit) -> DeviceSlot:
        device, mig = unit.device, unit.mig
        own = device if mig is None or not device.healthy else mig
        withheld = obstacle(unit, self._config, self._inventory, self._access) if own.healthy else None
        reason = own.reason if not own.healthy else withheld.message if withheld is not None else ""
        healthy = own.healthy and withheld is None
        return DeviceSlot(unit.uuid, unit.uuid, healthy, reason, device.numa_node, device.uuid if mig else "")
