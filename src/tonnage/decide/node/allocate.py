"""Whether the devices that kubelet chose for a container may be given to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tonnage.decide.node.advertise import conflict, describe
from tonnage.decide.node.device_holds import DeviceHolds, Uses
from tonnage.model.devices.sharing import Allocation, DeviceSlot, PlannedResource
from tonnage.model.reasons.gpu.allocation import (
    CdiNamesMissing,
    DeviceReason,
    DuplicateDevice,
    HeldAndForgotten,
    HeldUnderAnotherName,
    NoDevices,
    ReplicasOfOneDevice,
    ResourceNotOffered,
    SharedRequestTooLarge,
    UnhealthyDevice,
    UnknownDevice,
)
from tonnage.model.reasons.reason import Reason

_MOST_NAMED: Final = 5


def allocate(
    resource: PlannedResource,
    ids: Sequence[str],
    held: DeviceHolds,
    whole_of: Mapping[str, str] = MappingProxyType({}),
    uses: Uses | None = None,
) -> Allocation | Reason:
    """The devices behind `ids`, replicas of one device counted once, or why not.

    `whole_of` is the physical device of every MIG device of the node, by uuid. `uses` are those of the holds,
    where they are known already.

    Source of the texts: NVIDIA/k8s-device-plugin, whose users search for them.
    """
    requested, slots = set(ids), resource.by_id
    uses = held.uses(whole_of) if uses is None else uses
    name, subject = resource.name, f"Resource {resource.name}"
    if not ids:
        return NoDevices(subject=subject, message=_invalid(name, "no devices requested"), resource=name)
    if len(requested) != len(ids):
        message = _invalid(name, "a device is requested twice")
        return DuplicateDevice(subject=subject, message=message, resource=name)
    # Every id before any device: one that is unknown has no slot, which all that follows looks at.
    for slot_id in ids:
        if slot_id not in slots:
            message = _invalid(name, f"unknown device: {slot_id[:200]}")
            return UnknownDevice(subject=subject, message=message, resource=name, device=slot_id[:200])
    if resource.single_request and resource.shared and len(ids) > 1:
        return SharedRequestTooLarge(
            subject=subject,
            message=_invalid(name, f"maximum request size for shared resources is 1; found {len(ids)}"),
            resource=name,
            requested=len(ids),
        )
    for slot_id in ids:
        if (refusal := _refusal_of(resource, slots[slot_id], uses, held)) is not None:
            return refusal
    if resource.distinct and (pair := _of_one_device([slots[slot_id] for slot_id in ids])):
        message = _invalid(name, _not_distinct(resource, *pair))
        replicas = (pair[0].id, pair[1].id)
        return ReplicasOfOneDevice(subject=subject, message=message, resource=name, replicas=replicas)
    uuids = tuple(dict.fromkeys(slots[slot_id].uuid for slot_id in ids))
    return Allocation(resource.name, tuple(ids), uuids)


def not_offered(resource: str) -> ResourceNotOffered:
    """The refusal of a resource that the node has withdrawn."""
    message = f"{resource} is no longer offered by this node"
    return ResourceNotOffered(subject=f"Resource {resource}", message=message, resource=resource)


def without_spec(names: Sequence[str], problems: Sequence[str]) -> CdiNamesMissing:
    """The refusal of devices that no CDI spec has under these names, and why none has."""
    named = ", ".join(names[:_MOST_NAMED])
    why = "; ".join(problems[:_MOST_NAMED]) or "the driver does not report it now"
    return CdiNamesMissing(
        subject="CDI specs",
        message=f"no CDI spec has {named} yet: {why}",
        names=tuple(names),
    )


def _refusal_of(
    resource: PlannedResource, slot: DeviceSlot, uses: Uses, held: DeviceHolds
) -> DeviceReason | None:
    """What stands against one device."""
    name, subject = resource.name, f"Resource {resource.name}"
    if not slot.healthy:
        because = f" ({slot.reason})" if slot.reason else ""
        message = _invalid(name, f"device {slot.id} is unhealthy{because}")
        return UnhealthyDevice(subject=subject, message=message, resource=name, device=slot.id)
    if hold := conflict(resource, slot, uses):
        holder = describe(hold)
        message = _invalid(name, f"device {slot.id} is held as {holder}")
        return HeldUnderAnotherName(
            subject=subject, message=message, resource=name, device=slot.id, holder=holder
        )
    if (hold := held.by_id.get((name, slot.id))) and hold.forgotten:
        holder = describe(hold)
        message = _invalid(name, f"device {slot.id} is held as {holder}, which kubelet has forgotten")
        return HeldAndForgotten(
            subject=subject, message=message, resource=name, device=slot.id, holder=holder
        )
    return None


def _invalid(resource: str, text: str) -> str:
    return f'invalid allocation request for "{resource}": invalid request: {text}'


def _of_one_device(slots: Sequence[DeviceSlot]) -> tuple[DeviceSlot, DeviceSlot] | None:
    """The first slot whose device an earlier one has too, after that one."""
    by_uuid: dict[str, DeviceSlot] = {}
    for slot in slots:
        if slot.uuid in by_uuid:
            return by_uuid[slot.uuid], slot
        by_uuid[slot.uuid] = slot
    return None


def _not_distinct(resource: PlannedResource, first: DeviceSlot, other: DeviceSlot) -> str:
    devices = len({slot.uuid for slot in resource.slots})
    return (
        f"{first.id} and {other.id} are replicas of one GPU, and the policy spread-strict gives a container"
        f" each GPU once; kubelet found too few of this node's {devices} shared GPUs with a free replica:"
        " ask for fewer, or use the policy spread"
    )
