"""Whether the devices that kubelet chose for a container may be given to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from tonnage.decide.node.advertise import Uses, conflict, describe, uses_of
from tonnage.model.devices.sharing import Allocation, Hold, PlannedResource, Refusal, Slot


def allocate(
    resource: PlannedResource,
    ids: Sequence[str],
    holds: Collection[Hold],
    whole_of: Mapping[str, str] = MappingProxyType({}),
    uses: Uses | None = None,
    held: Mapping[tuple[str, str], Hold] | None = None,
) -> Allocation | Refusal:
    """The devices behind `ids`, replicas of one device counted once, or why not.

    `whole_of` is the physical device of every MIG device of the node, by uuid. `uses` are those of the holds,
    and `held` the holds by (resource, id), where they are known already.

    Source of the texts: NVIDIA/k8s-device-plugin, whose users search for them.
    """
    asked, slots = set(ids), resource.by_id
    uses = uses_of(holds, whole_of) if uses is None else uses
    held = {(hold.resource, slot): hold for hold in holds for slot in hold.ids} if held is None else held
    if not ids:
        return _invalid(resource, "no-devices", "no devices requested")
    if len(asked) != len(ids):
        return _invalid(resource, "duplicate-device", "a device is requested twice")
    # Every id before any device: one that is unknown has no slot, which all that follows looks at.
    for slot_id in ids:
        if slot_id not in slots:
            return _invalid(resource, "unknown-device", f"unknown device: {slot_id[:200]}")
    if resource.single_request and resource.shared and len(ids) > 1:
        text = f"maximum request size for shared resources is 1; found {len(ids)}"
        return _invalid(resource, "shared-request-too-large", text)
    for slot_id in ids:
        slot = slots[slot_id]
        if not slot.healthy:
            because = f" ({slot.reason})" if slot.reason else ""
            return _invalid(resource, "unhealthy-device", f"device {slot_id} is unhealthy{because}")
        if hold := conflict(resource, slot, uses):
            text = f"device {slot_id} is held as {describe(hold)}"
            return _invalid(resource, "held-under-another-name", text)
        if (hold := held.get((resource.name, slot_id))) and hold.forgotten:
            text = f"device {slot_id} is held as {describe(hold)}, which kubelet has forgotten"
            return _invalid(resource, "held-and-forgotten", text)
    if resource.distinct and (pair := _of_one_device([slots[slot_id] for slot_id in ids])):
        return _invalid(resource, "replicas-of-one-device", _not_distinct(resource, *pair))
    uuids = tuple(dict.fromkeys(slots[slot_id].uuid for slot_id in ids))
    return Allocation(resource.name, tuple(ids), uuids)


def _invalid(resource: PlannedResource, code: str, text: str) -> Refusal:
    return Refusal(code, f'invalid allocation request for "{resource.name}": invalid request: {text}')


def _of_one_device(slots: Sequence[Slot]) -> tuple[Slot, Slot] | None:
    """The first slot whose device an earlier one has too, after that one."""
    seen: dict[str, Slot] = {}
    for slot in slots:
        if slot.uuid in seen:
            return seen[slot.uuid], slot
        seen[slot.uuid] = slot
    return None


def _not_distinct(resource: PlannedResource, one: Slot, other: Slot) -> str:
    devices = len({slot.uuid for slot in resource.slots})
    return (
        f"{one.id} and {other.id} are replicas of one GPU, and the policy spread-strict gives a container"
        f" each GPU once; kubelet found too few of this node's {devices} shared GPUs with a free replica:"
        " ask for fewer, or use the policy spread"
    )
