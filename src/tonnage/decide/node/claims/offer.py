"""What the node offers to claims, and why it does not where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.model.devices.claims import DRIVER, PublishedDevice
from tonnage.model.reasons.gpu.claim_serving import (
    ClaimDriverRegistered,
    ClaimDriverUnregistered,
    ClaimSlicesOfAnother,
    PreparedClaimsUnreadable,
    ServingReason,
)

WITHOUT_PARTITIONS: Final = (
    "MIG devices cannot be made for claims: DRAPartitionableDevices is off on this server"
)


@dataclass(frozen=True, slots=True)
class ClaimOffer:
    """The GPUs that the configuration offers as claims, and why none can be had now.

    `unpublished`: why those that share counters cannot be had.
    """

    devices: tuple[PublishedDevice, ...] = ()
    refusal: ServingReason | None = None
    unpublished: str = ""


def serving_delay(unreadable: str, registration: str | None) -> ServingReason | None:
    """Why claims are not prepared, though the driver serves: what its own record and kubelet say of it.

    `registration` is kubelet's word against it: empty when it has taken the driver in, None before it spoke.

    >>> serving_delay("", "version not supported").message
    'kubelet refuses to register the driver gpu.nvidia.com: version not supported'
    """
    if unreadable:
        return PreparedClaimsUnreadable(message=unreadable)
    if not registration:
        return None
    return ClaimDriverUnregistered(message=f"kubelet refuses to register the driver {DRIVER}: {registration}")


def serving_obstacle(socket: str, foreign_slice: str) -> ServingReason | None:
    """Why claims are not served: another driver has that name.

    >>> serving_obstacle("", "node-a-gpu").code
    'claim-slices-of-another'
    """
    if socket:
        message = f"another driver {DRIVER} is registered on this node: {socket}; remove one of the two"
        return ClaimDriverRegistered(message=message, socket=socket)
    if foreign_slice:
        message = (
            f"another driver {DRIVER} publishes devices of this node: ResourceSlice {foreign_slice};"
            " remove one of the two"
        )
        return ClaimSlicesOfAnother(message=message, resource_slice=foreign_slice)
    return None
