"""What kubelet may be told while containers hold devices under names of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tonnage.model.devices.sharing import Advertisement, Hold, NodePlan, PlannedResource, Slot
from tonnage.model.names import parse_device_id


@dataclass(frozen=True, slots=True)
class Use:
    """A way in which a device is given out. Uses of one device that differ exclude each other.

    `part` is the uuid of the MIG device that is used, where only that part of the device is.
    """

    resource: str
    replicated: bool
    part: str = ""


Uses = dict[str, dict[Use, Hold]]
"""By the physical device's uuid: each use it is in, with one of the holds that say so."""


def uses_of(holds: Iterable[Hold], whole_of: Mapping[str, str] = MappingProxyType({})) -> Uses:
    """The uses that each physical device is in. `whole_of` is that of every MIG device, by uuid."""
    uses: Uses = {}
    known: set[tuple[str, str, bool]] = set()
    for hold in holds:
        for text in hold.ids:
            device = parse_device_id(text)
            key = hold.resource, device.uuid, device.replica is not None
            if key in known:  # another replica of it
                continue
            known.add(key)
            whole = whole_of.get(device.uuid)
            use = Use(hold.resource, device.replica is not None, "" if whole is None else device.uuid)
            uses.setdefault(whole or device.uuid, {}).setdefault(use, hold)
    return uses


def conflict(resource: PlannedResource, slot: Slot, uses: Uses) -> Hold | None:
    """A hold that forbids the slot: its device is held under another name, exclusively while it is shared, or
    as a whole while it is offered in parts; or the other way round.

    Two containers under the same use are kubelet's own business: it never gives out one id twice. Different
    parts of a device do not disturb each other.
    """
    part = slot.uuid if slot.part_of else ""
    own = Use(resource.name, parse_device_id(slot.id).replica is not None, part)
    held = uses.get(slot.part_of or slot.uuid, {}).items()
    return next(
        (hold for use, hold in held if use != own and not (part and use.part not in ("", part))), None
    )


def advertise(plan: NodePlan, holds: Iterable[Hold], uses: Uses | None = None) -> tuple[Advertisement, ...]:
    """Every resource of the plan; slots whose device is otherwise held are unhealthy until it is released.

    `uses` are those of the holds, where they are known already.
    """
    uses = uses_of(holds, plan.whole_of) if uses is None else uses
    return tuple(Advertisement(resource.name, _shown(resource, uses)) for resource in plan.resources)


def _shown(resource: PlannedResource, uses: Uses) -> tuple[Slot, ...]:
    """The resource's own slots where nothing is in the way: that is what nodes are nearly all of the time."""
    first = {slot.uuid: slot for slot in resource.first_slots if (slot.part_of or slot.uuid) in uses}
    found = {uuid: conflict(resource, slot, uses) for uuid, slot in first.items()}
    why = {uuid: f"held as {describe(hold)}" for uuid, hold in found.items() if hold is not None}
    if not why:
        return resource.slots
    return tuple(
        replace(slot, healthy=False, reason=slot.reason or why[slot.uuid]) if slot.uuid in why else slot
        for slot in resource.slots
    )


def describe(hold: Hold) -> str:
    """A hold in words.

    >>> describe(Hold("nvidia.com/gpu", ("GPU-1",), "ml", "train", "main"))
    'nvidia.com/gpu by ml/train'
    """
    owner = "/".join(part for part in (hold.namespace, hold.pod) if part)
    return f"{hold.resource} by {owner}" if owner else hold.resource
