"""What kubelet may be told while containers hold devices under names of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tonnage.decide.node.device_holds import DeviceHolds, Use, Uses
from tonnage.model.devices.sharing import Advertisement, DeviceSlot, Hold, HoldKind, NodePlan, PlannedResource
from tonnage.model.names import parse_device_id


def conflict(resource: PlannedResource, slot: DeviceSlot, uses: Uses) -> Hold | None:
    """A hold that forbids the slot: its device is held under another name, exclusively while it is shared, or
    as a whole while it is offered in parts; or the other way round.

    Two containers under the same use are kubelet's own business: it never gives out one id twice. Different
    parts of a device do not disturb each other.
    """
    held = uses.get(slot.part_of or slot.uuid)
    if not held:
        return None
    part = slot.uuid if slot.part_of else ""
    own = Use(resource.name, parse_device_id(slot.id).replica is not None, part)
    if len(held) == 1 and own in held:
        return None
    return next(
        (hold for use, hold in held.items() if use != own and not (part and use.part not in ("", part))),
        None,
    )


def advertise(plan: NodePlan, holds: Iterable[Hold], uses: Uses | None = None) -> tuple[Advertisement, ...]:
    """Every resource of the plan; slots whose device is otherwise held are unhealthy until it is released.

    `uses` are those of the holds, where they are known already.
    """
    uses = DeviceHolds.of(holds).uses(plan.whole_of) if uses is None else uses
    return tuple(Advertisement(resource.name, _shown(resource, uses)) for resource in plan.resources)


def _shown(resource: PlannedResource, uses: Uses) -> tuple[DeviceSlot, ...]:
    """The resource's own slots where nothing is in the way: that is what nodes are nearly all of the time."""
    # One slot of each unit is enough: a hold under another name forbids all its replicas alike.
    used = {slot.uuid: slot for slot in resource.first_slots if (slot.part_of or slot.uuid) in uses}
    conflicts = {uuid: conflict(resource, slot, uses) for uuid, slot in used.items()}
    why = {uuid: f"held as {describe(hold)}" for uuid, hold in conflicts.items() if hold is not None}
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
    name = f"claim {hold.resource}" if hold.kind is HoldKind.CLAIM else hold.resource
    return f"{name} by {owner}" if owner else name
