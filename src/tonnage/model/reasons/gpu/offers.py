"""Why a device that is well itself is not offered to kubelet, or not as the configuration has it."""

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
    advice: ClassVar[str] = "check the driver"
    layer: Layer = Layer.DRIVER
    path: str


class MigIgnored(OfferReason):
    """Under MIG strategy none a divided GPU is offered whole, and containers compute on a part of it."""

    code: ClassVar[str] = "mig-ignored"
    advice: ClassVar[str] = "choose another MIG strategy, or disable MIG there"


class MigDevicesMissing(OfferReason):
    """MIG is enabled on a GPU that has no MIG devices, so it offers nothing."""

    code: ClassVar[str] = "mig-devices-missing"
    advice: ClassVar[str] = "create them, or disable MIG there"


@reason
class MigProfileUnnamed(OfferReason):
    """The profile of a MIG device cannot be the name of a resource."""

    code: ClassVar[str] = "mig-profile-unnamed"
    advice: ClassVar[str] = "check the driver"
    profile: str


@reason
class MigProfilesMixed(OfferReason):
    """Under MIG strategy single a GPU with MIG devices of several profiles is withheld."""

    code: ClassVar[str] = "mig-profiles-mixed"
    advice: ClassVar[str] = "divide it into one profile, or choose the strategy mixed"
    profiles: tuple[str, ...]


@reason
class DeviceKindDiffers(OfferReason):
    """Under MIG strategy single a device of another kind (whole, or one profile) is withheld."""

    code: ClassVar[str] = "device-kind-differs"
    advice: ClassVar[str] = "divide all devices alike, or choose the strategy mixed"
    kind: str
    offered: str


@reason
class PlanReason(Reason):
    """About the node's configuration of devices."""

    layer: Layer = Layer.PLUGIN
    subject: str = "configuration"


class ConfigurationOverlooked(PlanReason):
    """The configuration has something that a lenient reader ignores."""

    code: ClassVar[str] = "configuration-overlooked"
    advice: ClassVar[str] = "correct it as the message says"


@reason
class ImexChannelAbsent(PlanReason):
    """The configuration names an IMEX channel that the node does not have, and does not require it."""

    code: ClassVar[str] = "imex-channel-absent"
    advice: ClassVar[str] = "create it, or leave it out"
    layer: Layer = Layer.DRIVER
    channel: int


@reason
class SharedDeviceMissing(PlanReason):
    """The configuration shares a device that the node does not have."""

    code: ClassVar[str] = "shared-device-missing"
    advice: ClassVar[str] = "correct `devices` of that resource"
    selector: str
    resource: str


@reason
class SharedNameTaken(PlanReason):
    """Devices are to be shared under the name of others, so they are withheld."""

    code: ClassVar[str] = "shared-name-taken"
    advice: ClassVar[str] = "give them another name"
    resource: str


@reason
class CdiNotUsed(Reason):
    """`deviceListStrategy: auto` does not use CDI, because kubelet, runtime or agent may not support it."""

    code: ClassVar[str] = "cdi-not-used"
    advice: ClassVar[str] = "do what the message says; variables work meanwhile"
    layer: Layer = Layer.RUNTIME
    subject: str = "deviceListStrategy auto"
    lasting: bool = False


@reason
class ClaimedDeviceMissing(PlanReason):
    """The configuration offers a GPU as claims that the node does not have."""

    code: ClassVar[str] = "claimed-device-missing"
    advice: ClassVar[str] = "correct claims.devices, or write all"
    selector: str


REASONS: Final[tuple[type[Reason], ...]] = (
    MpsNotForMig,
    MpsClientsTooMany,
    ImexChannelMissing,
    MigCapabilityMissing,
    MigIgnored,
    MigDevicesMissing,
    MigProfileUnnamed,
    MigProfilesMixed,
    DeviceKindDiffers,
    ConfigurationOverlooked,
    ImexChannelAbsent,
    SharedDeviceMissing,
    SharedNameTaken,
    CdiNotUsed,
    ClaimedDeviceMissing,
)
