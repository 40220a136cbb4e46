"""What is wrong with the GPU labels of a Node."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.reason import NodeFault, NodeReason, reason
from tonnage.model.severity import Severity


@reason
class LabelReason(NodeFault):
    """What lies with a Node's labels."""

    node_layer: ClassVar[NodeLayer] = NodeLayer.LABELS
    layer: Layer = Layer.SCHEDULER


@reason
class LabelDrifted(LabelReason):
    """Labels of the Node contradict the hardware."""

    code: ClassVar[str] = "label-drifted"
    advice: ClassVar[str] = "publish them again"
    severity: ClassVar[Severity] = Severity.WARNING
    differing: tuple[str, ...]
    unfounded: tuple[str, ...]


REASONS: Final[tuple[type[NodeReason], ...]] = (LabelDrifted,)
