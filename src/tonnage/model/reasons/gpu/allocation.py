"""Why kubelet is refused the devices that it chose for a container (DevicePlugin.Allocate)."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.reason import Reason, Symptom, reason


@reason
class AllocationReason(Reason):
    """What the device plugin says of a request."""

    layer: Layer = Layer.PLUGIN
    lasting: bool = False
    resource: str


@reason
class DeviceReason(AllocationReason):
    """What stands against one of the devices, by the id that kubelet knows."""

    device: str


class ResourceNotOffered(AllocationReason):
    """The node no longer offers the resource."""

    code: ClassVar[str] = "not-offered"
    advice: ClassVar[str] = "create the pod again"


class NoDevices(AllocationReason):
    """Kubelet asks for no device."""

    code: ClassVar[str] = "no-devices"
    advice: ClassVar[str] = "check kubelet"


class DuplicateDevice(AllocationReason):
    """Kubelet asks for a device twice."""

    code: ClassVar[str] = "duplicate-device"
    advice: ClassVar[str] = "check kubelet"


class UnknownDevice(DeviceReason):
    """Kubelet asks for a device that the node does not offer under the resource."""

    code: ClassVar[str] = "unknown-device"
    advice: ClassVar[str] = "create the pod again"


class UnhealthyDevice(DeviceReason):
    """The device became unhealthy after kubelet had chosen it."""

    code: ClassVar[str] = "unhealthy-device"
    advice: ClassVar[str] = "create the pod again, and check the device"


@reason
class HeldUnderAnotherName(DeviceReason):
    """The device, a part of it or what it is a part of is given out under another resource."""

    code: ClassVar[str] = "held-under-another-name"
    advice: ClassVar[str] = "wait until its holder ends"
    holder: str


@reason
class HeldAndForgotten(DeviceReason):
    """A container has the device, but kubelet has forgotten that it gave it."""

    code: ClassVar[str] = "held-and-forgotten"
    advice: ClassVar[str] = "wait until its holder ends"
    holder: str


@reason
class ReplicasOfOneDevice(AllocationReason):
    """Under the policy spread-strict, two replicas of one GPU."""

    code: ClassVar[str] = "replicas-of-one-device"
    advice: ClassVar[str] = "ask for fewer, or use the policy `spread`"
    replicas: tuple[str, ...]


@reason
class SharedRequestTooLarge(Symptom):
    """More than one of a shared resource of which a container may have one."""

    code: ClassVar[str] = "shared-request-too-large"
    leads: ClassVar[bool] = True
    advice: ClassVar[str] = "ask for one"
    layer: Layer = Layer.PLUGIN
    found: str | None = None
    resource: str | None = None
    requested: int | None = None
    nodes: tuple[str, ...] | None = None
    config: str | None = None

    def refuses_on(self, node: str | None) -> bool:
        """Where the node shares the resource so: the scheduler does not know that."""
        return node in (self.nodes or ())


@reason
class CdiNamesMissing(Reason):
    """No CDI spec has the names by which the container would get its devices."""

    code: ClassVar[str] = "no-cdi-spec"
    advice: ClassVar[str] = "check the driver and the agent's condition on the Node"
    layer: Layer = Layer.PLUGIN
    lasting: bool = False
    names: tuple[str, ...]


REASONS: Final[tuple[type[Reason], ...]] = (
    ResourceNotOffered,
    NoDevices,
    DuplicateDevice,
    UnknownDevice,
    UnhealthyDevice,
    HeldUnderAnotherName,
    HeldAndForgotten,
    ReplicasOfOneDevice,
    CdiNamesMissing,
)
