"""What keeps the kernel's driver from a node's GPUs, now or after the next boot."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.reason import NodeFault, NodeReason, reason
from tonnage.model.severity import Severity


@reason
class NodeDriverReason(NodeFault):
    """What lies with the kernel's driver."""

    node_layer: ClassVar[NodeLayer] = NodeLayer.DRIVER
    layer: Layer = Layer.DRIVER


@reason
class DriverHangs(NodeDriverReason):
    """The driver does not answer within the deadline."""

    code: ClassVar[str] = "driver-hangs"
    advice: ClassVar[str] = "drain the node and reboot it"
    gpus: int


@reason
class FabricNotReady(NodeDriverReason):
    """Fabric Manager has not set up the NVSwitches of the GPUs' board."""

    code: ClassVar[str] = "fabric-not-ready"
    advice: ClassVar[str] = "start the fabric manager of the driver's version"
    gpus: tuple[str, ...]
    state: str


@reason
class GpuNotDriven(NodeDriverReason):
    """The driver shows fewer GPUs than are on the bus."""

    code: ClassVar[str] = "gpu-not-driven"
    advice: ClassVar[str] = "read the kernel's log; reboot"
    gpus: int
    driven: int
    addresses: tuple[str, ...] = ()


@reason
class GpuUnhealthy(NodeDriverReason):
    """The node's agent counts GPUs as unhealthy."""

    code: ClassVar[str] = "gpu-unhealthy"
    advice: ClassVar[str] = "[handle a faulty GPU](../how-to/handle-a-faulty-gpu.md)"
    condition: str


@reason
class KernelHeadersMissing(NodeDriverReason):
    """NVIDIA's module can neither be loaded nor built for the running kernel."""

    code: ClassVar[str] = "kernel-headers-missing"
    advice: ClassVar[str] = "install the headers"
    kernel: str


@reason
class NextKernelWithoutDriver(NodeDriverReason):
    """A newer kernel is installed for which there will be no driver."""

    code: ClassVar[str] = "next-kernel-without-driver"
    advice: ClassVar[str] = "install its headers before the reboot"
    severity: ClassVar[Severity] = Severity.WARNING
    kernel: str


@reason
class NouveauBound(NodeDriverReason):
    """Nouveau has a GPU."""

    code: ClassVar[str] = "nouveau-bound"
    advice: ClassVar[str] = "blacklist it and reboot"
    bound: int
    gpus: int


class NouveauNotBlacklisted(NodeDriverReason):
    """The driver is not loaded, and nothing keeps nouveau from the GPUs."""

    code: ClassVar[str] = "nouveau-not-blacklisted"
    advice: ClassVar[str] = "blacklist it"
    severity: ClassVar[Severity] = Severity.WARNING


@reason
class SecureBootRefusesModule(NodeDriverReason):
    """Secure boot is on and the installed module is not loaded."""

    code: ClassVar[str] = "secure-boot-refuses-module"
    advice: ClassVar[str] = "sign it and enrol the key"
    kernel: str


@reason
class TwoDrivers(NodeDriverReason):
    """Host and container have drivers of different versions, or not the one that the operator relies on."""

    code: ClassVar[str] = "two-drivers"
    advice: ClassVar[str] = "one owner"
    host: str
    container: str
    loaded: str


REASONS: Final[tuple[type[NodeReason], ...]] = (
    DriverHangs,
    FabricNotReady,
    GpuNotDriven,
    GpuUnhealthy,
    KernelHeadersMissing,
    NextKernelWithoutDriver,
    NouveauBound,
    NouveauNotBlacklisted,
    SecureBootRefusesModule,
    TwoDrivers,
)
