"""What doctor finds on the PCI bus."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.reason import NodeFault, NodeReason, reason


@reason
class BusReason(NodeFault):
    """What the PCI bus shows."""

    node_layer: ClassVar[NodeLayer] = NodeLayer.HARDWARE
    layer: Layer = Layer.HARDWARE


class NoGpuFound(BusReason):
    """No GPU is on the PCI bus."""

    code: ClassVar[str] = "no-gpu-found"
    advice: ClassVar[str] = "run `lspci`; check BIOS, slot and passthrough"


REASONS: Final[tuple[type[NodeReason], ...]] = (NoGpuFound,)
