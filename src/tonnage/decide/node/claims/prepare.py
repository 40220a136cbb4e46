"""Whether a claim's devices may be given to its pods, as its allocation has them now."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final

from tonnage.decide.node.advertise import describe
from tonnage.decide.node.claims.sharing import ClaimGround, sharing_of
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.model.devices.claims import DRIVER, ClaimRef, PreparedClaim, PreparedDevice, PublishedDevice
from tonnage.model.devices.sharing import Hold
from tonnage.model.json import JsonObject
from tonnage.model.json_access import flag, mappings, text
from tonnage.model.reasons.gpu.claim_preparation import (
    ClaimConfigRefused,
    ClaimedDeviceElsewhere,
    ClaimedDeviceGone,
    ClaimedDeviceHeld,
    ClaimedDeviceUnhealthy,
    ClaimReplaced,
    ClaimWithoutDevices,
    PreparationReason,
)

_UID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_MOST_CONSUMERS: Final = 256


def prepare(
    claim: ClaimRef, uid: str, status: JsonObject, ground: ClaimGround
) -> PreparedClaim | PreparationReason:
    """What the claim's containers get, or why nothing. `uid` and `status` are of the object that stands.

    A device that another claim or a container has is refused, whatever the scheduler thought: a claim that
    was deleted by force may still have it.
    """
    subject = f"ResourceClaim {claim}"
    if uid != claim.uid or not _UID.fullmatch(uid):
        message = (
            f"claim {claim} got replaced: kubelet asks for {claim.uid}, and {uid or 'none'} has its name"
        )
        return ClaimReplaced(subject=subject, message=message, claim=str(claim), uid=uid)
    if (earlier := ground.uids.get(str(claim), uid)) != uid:
        message = f"an earlier claim {claim} ({earlier}) still holds devices of this node"
        return ClaimReplaced(subject=subject, message=message, claim=str(claim), uid=earlier)
    grants = [entry for entry in mappings(status, "allocation", "devices", "results") if _is_ours(entry)]
    if not grants:
        message = f"claim {claim} has no device of {DRIVER}"
        return ClaimWithoutDevices(subject=subject, message=message, claim=str(claim))
    for grant in grants:
        if (refusal := _refusal(claim, grant, ground)) is not None:
            return refusal
    devices = tuple(_prepared(grant, ground) for grant in grants)
    shares = sharing_of(claim, status, grants, ground)
    if isinstance(shares, ClaimConfigRefused):
        return shares
    consumers = tuple(
        (text(consumer, "uid"), text(consumer, "name"))
        for consumer in mappings(status, "reservedFor")[:_MOST_CONSUMERS]
        if text(consumer, "resource") == "pods"
    )
    return PreparedClaim(claim, devices, consumers, ground.boot, *shares)


def holder_of(claim: ClaimRef, uuid: str, held: DeviceHolds, beside: Set[str] = frozenset()) -> Hold | None:
    """Who has a device, apart from this claim and those that have parts `beside` it."""
    uses = held.uses().get(uuid, {})
    return next((hold for hold in uses.values() if hold.resource not in {str(claim), *beside}), None)


def _is_ours(grant: JsonObject) -> bool:
    return text(grant, "driver") == DRIVER


def _refusal(claim: ClaimRef, grant: JsonObject, ground: ClaimGround) -> PreparationReason | None:
    """What stands against one of the devices that were allocated."""
    pool, name = text(grant, "pool"), text(grant, "device")
    subject, where = f"ResourceClaim {claim}", f"device {pool}/{name}"[:200]
    if pool != ground.pool:
        message = f"{where} of claim {claim} belongs to another node than {ground.pool}"
        return ClaimedDeviceElsewhere(subject=subject, message=message, claim=str(claim), device=name)
    device = ground.devices.get(name)
    if device is None or (device.unfit and holder_of(claim, device.uuid, ground.held) is None):
        why = f": {device.unfit}" if device is not None else ""
        message = f"{where} of claim {claim} is not offered by this node any more{why}"
        return ClaimedDeviceGone(subject=subject, message=message, claim=str(claim), device=name)
    share = text(grant, "shareID")
    if share and not (device.shares and _UID.fullmatch(share)):
        message = f"{where} of claim {claim} is a share of a GPU, and the node offers it to one claim alone"
        return ClaimedDeviceGone(subject=subject, message=message, claim=str(claim), device=name)
    if flag(grant, "adminAccess"):
        if device.partition is None:
            return None
        message = f"{where} of claim {claim} is made for the claim that has it, and no other can look at it"
        return ClaimedDeviceGone(subject=subject, message=message, claim=str(claim), device=name)
    if (other := _made_for(device, claim, ground)) is not None:
        message = f"{where} of claim {claim} is held as claim {other}"
        return ClaimedDeviceHeld(
            subject=subject, message=message, claim=str(claim), device=name, holder=f"claim {other}"
        )
    beside = {use.claim for use in ground.shared.get(device.uuid, ())} if share else frozenset[str]()
    if (hold := holder_of(claim, device.uuid, ground.held, beside)) is not None:
        holder = describe(hold)
        message = f"{where} of claim {claim} is held as {holder}"
        return ClaimedDeviceHeld(
            subject=subject, message=message, claim=str(claim), device=name, holder=holder
        )
    if not device.healthy:
        why = f" ({device.reason})" if device.reason else ""
        message = f"{where} of claim {claim} is unhealthy{why}"
        return ClaimedDeviceUnhealthy(subject=subject, message=message, claim=str(claim), device=name)
    return None


def _prepared(grant: JsonObject, ground: ClaimGround) -> PreparedDevice:
    name = text(grant, "device")
    request = text(grant, "request").partition("/")[0]
    device, admin = ground.devices[name], flag(grant, "adminAccess")
    share = text(grant, "shareID")
    return PreparedDevice(request, ground.pool, name, device.uuid, admin, device.partition, share)


def _made_for(device: PublishedDevice, claim: ClaimRef, ground: ClaimGround) -> str | None:
    """The other claim that has what the device would be made of."""
    if device.partition is None:
        return None
    return next(
        (
            name
            for name, parts in ground.partitions.items()
            if name != str(claim) and any(map(device.partition.overlaps, parts))
        ),
        None,
    )
