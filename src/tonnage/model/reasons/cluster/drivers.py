"""What stands against drivers in containers: policies that cannot be followed, and checks of nodes."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.reason import Reason, reason


@reason
class DriverReason(Reason):
    """About drivers that a policy installs."""

    layer: Layer = Layer.DRIVER


class DriverPolicyRefused(DriverReason):
    """A policy asks for drivers in a way that cannot be followed, so its drivers stay as they are."""

    code: ClassVar[str] = "driver-policy-refused"
    advice: ClassVar[str] = "correct the field that the message names"


@reason
class DriverDefaultsConflict(DriverReason):
    """Several NVIDIADrivers are default, so that neither is followed."""

    code: ClassVar[str] = "driver-defaults-conflict"
    advice: ClassVar[str] = "set spec.default in one of them"
    drivers: tuple[str, ...]


@reason
class DriverSelectorsConflict(DriverReason):
    """Several NVIDIADrivers select one node, whose driver stays as it is."""

    code: ClassVar[str] = "driver-selectors-conflict"
    advice: ClassVar[str] = "make their selectors exclude each other"
    drivers: tuple[str, ...]
    node: str


@reason
class PreflightReason(DriverReason):
    """A check before a driver is rolled out; `node` empty: it is about the policy.

    `condition` is the reason of the condition; while one that `blocks` holds, the node gets no driver
    container.
    """

    condition: ClassVar[str]
    blocks: ClassVar[bool] = True
    lasting: bool = False
    node: str

    def __str__(self) -> str:
        where = f"{self.node}: " if self.node else ""
        return f"{where}{self.message}; {self.remedy}"


@reason
class HostDriverConflict(PreflightReason):
    """The node's host has a driver of its own, which stays."""

    code: ClassVar[str] = "host-driver-conflict"
    advice: ClassVar[str] = "install no driver there, or remove the host's packages"
    condition: ClassVar[str] = "HostDriverConflict"
    version: str


@reason
class NouveauBindsGpus(PreflightReason):
    """The kernel's own driver has the node's GPUs."""

    code: ClassVar[str] = "nouveau-binds-gpus"
    advice: ClassVar[str] = "blacklist nouveau on the node, and reboot it"
    condition: ClassVar[str] = "NouveauBound"
    gpus: int


class BuiltModuleUnsigned(PreflightReason):
    """Secure boot refuses a module that a container builds."""

    code: ClassVar[str] = "built-module-unsigned"
    advice: ClassVar[str] = "use precompiled drivers, or turn secure boot off"
    condition: ClassVar[str] = "SecureBootRefusesModule"


@reason
class HeadersToDownload(PreflightReason):
    """The node lacks the headers of its kernel, which the driver container must download."""

    code: ClassVar[str] = "headers-to-download"
    advice: ClassVar[str] = "install them on the node, or use precompiled drivers"
    condition: ClassVar[str] = "KernelHeadersMissing"
    blocks: ClassVar[bool] = False
    kernel: str


@reason
class DriverImageMissing(PreflightReason):
    """The registry has no image of the driver for the node's system and kernel."""

    code: ClassVar[str] = "driver-image-missing"
    advice: ClassVar[str] = "name a version that is published for this system"
    condition: ClassVar[str] = "DriverImageMissing"
    image: str


@reason
class DriverImageUnknown(PreflightReason):
    """Nobody can tell whether the driver's image exists."""

    code: ClassVar[str] = "driver-image-unknown"
    advice: ClassVar[str] = "allow the registry in the chart (controller.drivers.registries), or ignore this"
    condition: ClassVar[str] = "DriverImageUnknown"
    blocks: ClassVar[bool] = False
    image: str


class DriverSystemUnknown(PreflightReason):
    """No driver image can be named for a node, since nobody says its system."""

    code: ClassVar[str] = "driver-system-unknown"
    advice: ClassVar[str] = "let its agent see the host, or run node feature discovery"
    condition: ClassVar[str] = "SystemUnknown"


@reason
class DriverVersionsMixed(PreflightReason):
    """A policy names versions of parts that NVIDIA did not release together."""

    code: ClassVar[str] = "driver-versions-mixed"
    advice: ClassVar[str] = "leave the version of the part out, or write that of the release"
    condition: ClassVar[str] = "UnsupportedVersions"
    blocks: ClassVar[bool] = False
    part: str


REASONS: Final[tuple[type[Reason], ...]] = (
    DriverPolicyRefused,
    DriverDefaultsConflict,
    DriverSelectorsConflict,
    HostDriverConflict,
    NouveauBindsGpus,
    BuiltModuleUnsigned,
    HeadersToDownload,
    DriverImageMissing,
    DriverImageUnknown,
    DriverSystemUnknown,
    DriverVersionsMixed,
)
