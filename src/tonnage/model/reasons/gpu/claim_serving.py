"""Why the agent serves no claims, though its configuration offers GPUs as claims."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.reason import Reason, reason


@reason
class ServingReason(Reason):
    """About the driver of claims on a node."""

    layer: Layer = Layer.PLUGIN
    subject: str = "claims"
    lasting: bool = False


@reason
class ClaimDriverRegistered(ServingReason):
    """Another program is registered with kubelet under the name of the driver."""

    code: ClassVar[str] = "claim-driver-registered"
    advice: ClassVar[str] = "remove one of the two drivers"
    socket: str


@reason
class ClaimSlicesOfAnother(ServingReason):
    """Another program publishes ResourceSlices of the node under the name of the driver."""

    code: ClassVar[str] = "claim-slices-of-another"
    advice: ClassVar[str] = "remove one of the two drivers"
    resource_slice: str


class PreparedClaimsUnreadable(ServingReason):
    """The agent cannot read its record of the claims that it has prepared."""

    code: ClassVar[str] = "prepared-claims-unreadable"
    advice: ClassVar[str] = "do what the message says"
    lasting: bool = True


class ClaimDriverUnregistered(ServingReason):
    """Kubelet has not taken the driver in yet, or refuses it."""

    code: ClassVar[str] = "claim-driver-unregistered"
    advice: ClassVar[str] = "wait a moment; then look at kubelet's log"


REASONS: Final[tuple[type[ServingReason], ...]] = (
    ClaimDriverRegistered,
    ClaimSlicesOfAnother,
    PreparedClaimsUnreadable,
    ClaimDriverUnregistered,
)
