"""Why a device that is well itself is not offered to kubelet."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.reason import Reason, reason


@reason
class OfferReason(Reason):
    """About a device, by its uuid."""

    layer: Layer = Layer.PLUGIN
    uuid: str


class MpsNotForMig(OfferReason):
    """A divided GPU cannot be shared through MPS."""

    code: ClassVar[str] = "mps-not-for-mig"
    advice: ClassVar[str] = "use timeSlicing, or disable MIG there"


@reason
class MpsClientsTooMany(OfferReason):
    """More replicas are configured than MPS has clients on the device."""

    code: ClassVar[str] = "mps-clients-too-many"
    advice: ClassVar[str] = "ask for fewer replicas"
    replicas: int
    most: int


@reason
class ImexChannelMissing(OfferReason):
    """The configuration requires an IMEX channel that the node does not have."""

    code: ClassVar[str] = "imex-channel-missing"
    advice: ClassVar[str] = "create it, or do not require it"
    layer: Layer = Layer.DRIVER
    channel: int


@reason
class MigCapabilityMissing(OfferReason):
    """The driver shows no capability for a MIG device, so that no container can open it."""

    code: ClassVar[str] = "mig-capability-missing"
    advice: ClassVar[str] = "look at the driver"
    layer: Layer = Layer.DRIVER
    path: str


REASONS: Final[tuple[type[Reason], ...]] = (
    MpsNotForMig,
    MpsClientsTooMany,
    ImexChannelMissing,
    MigCapabilityMissing,
)
