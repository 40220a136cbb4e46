"""What is wrong with the nodes by which programs reach the driver."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.reason import NodeFault, NodeReason, reason


@reason
class DeviceNodeReason(NodeFault):
    """What lies with device nodes."""

    node_layer: ClassVar[NodeLayer] = NodeLayer.DEVICE_NODES
    layer: Layer = Layer.DRIVER


@reason
class DeviceNodeMissing(DeviceNodeReason):
    """A node below `/dev` is missing that the loaded driver needs."""

    code: ClassVar[str] = "device-node-missing"
    advice: ClassVar[str] = "`nvidia-modprobe`"
    paths: tuple[str, ...]


@reason
class DeviceNodeWrong(DeviceNodeReason):
    """A node has other numbers than the kernel gave, or is a folder or file."""

    code: ClassVar[str] = "device-node-wrong"
    advice: ClassVar[str] = "remove it and create it again"
    path: str
    numbers: str
    expected: str


REASONS: Final[tuple[type[NodeReason], ...]] = (
    DeviceNodeMissing,
    DeviceNodeWrong,
)
