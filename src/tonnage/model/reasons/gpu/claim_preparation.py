"""Why kubelet is refused the devices of a claim (DRAPlugin.NodePrepareResources)."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.reason import Reason, reason


@reason
class PreparationReason(Reason):
    """What the driver says of a claim, `namespace/name`."""

    layer: Layer = Layer.PLUGIN
    lasting: bool = False
    claim: str


@reason
class ClaimReplaced(PreparationReason):
    """Kubelet asks for a claim that has been deleted; another one has its name."""

    code: ClassVar[str] = "claim-replaced"
    advice: ClassVar[str] = "delete the pod, so that it is created for the new claim"
    uid: str


@reason
class ClaimWithoutDevices(PreparationReason):
    """The claim has no allocation, or none of this driver's devices."""

    code: ClassVar[str] = "claim-without-devices"
    advice: ClassVar[str] = "wait for the scheduler to allocate the claim"


@reason
class ClaimDeviceReason(PreparationReason):
    """What stands against one of its devices."""

    device: str


class ClaimedDeviceElsewhere(ClaimDeviceReason):
    """The claim has a device of another node's pool."""

    code: ClassVar[str] = "claimed-device-elsewhere"
    advice: ClassVar[str] = "delete the pod, and the claim if it is not the pod's own"
    lasting: bool = True


class ClaimedDeviceGone(ClaimDeviceReason):
    """The claim has a device that this node does not offer as claims any more."""

    code: ClassVar[str] = "claimed-device-gone"
    advice: ClassVar[str] = "delete the pod, so that it is scheduled to a device that exists"


class ClaimedDeviceUnhealthy(ClaimDeviceReason):
    """The device became unhealthy after the scheduler had chosen it."""

    code: ClassVar[str] = "claimed-device-unhealthy"
    advice: ClassVar[str] = "delete the pod, and check the device"


@reason
class ClaimedDeviceHeld(ClaimDeviceReason):
    """Another claim, or a pod with an extended resource, has the device."""

    code: ClassVar[str] = "claimed-device-held"
    advice: ClassVar[str] = "wait until its holder ends"
    holder: str


@reason
class ClaimConfigRefused(PreparationReason):
    """A configuration of the claim or its class cannot be read, contradicts another, or is not honoured."""

    code: ClassVar[str] = "claim-config-refused"
    advice: ClassVar[str] = "correct the parameters, or leave them out"
    lasting: bool = True
    where: str


REASONS: Final[tuple[type[Reason], ...]] = (
    ClaimReplaced,
    ClaimWithoutDevices,
    ClaimedDeviceElsewhere,
    ClaimedDeviceGone,
    ClaimedDeviceUnhealthy,
    ClaimedDeviceHeld,
    ClaimConfigRefused,
)
