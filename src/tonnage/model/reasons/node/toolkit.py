"""What is wrong with the configuration of NVIDIA's container toolkit."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.reason import NodeFault, NodeReason, reason
from tonnage.model.severity import Severity


@reason
class ToolkitReason(NodeFault):
    """What lies with NVIDIA's container toolkit."""

    node_layer: ClassVar[NodeLayer] = NodeLayer.RUNTIME
    layer: Layer = Layer.RUNTIME


@reason
class ToolkitConfigInvalid(ToolkitReason):
    """NVIDIA's toolkit's configuration cannot be used."""

    code: ClassVar[str] = "toolkit-config-invalid"
    advice: ClassVar[str] = "correct it"
    problem: str


class ToolkitNoCgroups(ToolkitReason):
    """The toolkit does not set up control groups, so GPUs cannot be opened."""

    code: ClassVar[str] = "toolkit-no-cgroups"
    advice: ClassVar[str] = "`no-cgroups=false`"


class ToolkitRefusesVariable(ToolkitReason):
    """The toolkit ignores the variable by which the agent names devices."""

    code: ClassVar[str] = "toolkit-refuses-variable"
    advice: ClassVar[str] = "use another device list strategy"
    severity: ClassVar[Severity] = Severity.WARNING


REASONS: Final[tuple[type[NodeReason], ...]] = (
    ToolkitConfigInvalid,
    ToolkitNoCgroups,
    ToolkitRefusesVariable,
)
