"""Why a node is not taken over from NVIDIA's operator, or its takeover not finished, though one waits."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.reason import Reason, reason


@reason
class AdoptionReason(Reason):
    """About a node; `remedy` is what to do first."""

    layer: Layer = Layer.PLUGIN


class AdoptionNoteUnreadable(AdoptionReason):
    """The annotation in which the node's takeover is noted cannot be read."""

    code: ClassVar[str] = "adoption-note-unreadable"
    advice: ClassVar[str] = "restore NVIDIA's labels by hand, and remove the annotation"


class AgentDoesNotWait(AdoptionReason):
    """The node's agent offers devices beside NVIDIA's plugin, since it does not wait for the takeover."""

    code: ClassVar[str] = "agent-does-not-wait"
    advice: ClassVar[str] = "set adoption.enabled=true in Tonnage's chart"


class AgentWithoutDevices(AdoptionReason):
    """The node's agent sees no device, so that it has none to offer in place of NVIDIA's plugin."""

    code: ClassVar[str] = "agent-without-devices"
    advice: ClassVar[str] = "ask tonnage explain node"


class PluginNotOfOperator(AdoptionReason):
    """NVIDIA's operator does not run the device plugin on the node, so that its label cannot stop it."""

    code: ClassVar[str] = "plugin-not-of-operator"
    advice: ClassVar[str] = "take that plugin off by hand"


class NodeNotAdopted(AdoptionReason):
    """A takeover is to be finished that has not begun, or not ended."""

    code: ClassVar[str] = "node-not-adopted"
    advice: ClassVar[str] = "adopt the node first"


@reason
class OperatorPodsLeft(AdoptionReason):
    """A takeover is to be finished while pods of NVIDIA's operator run on the node."""

    code: ClassVar[str] = "operator-pods-left"
    advice: ClassVar[str] = "remove the release of NVIDIA's operator"
    pods: tuple[str, ...]


class AgentStillWaits(AdoptionReason):
    """A takeover is to be finished while the agent would withdraw its devices without the node's label."""

    code: ClassVar[str] = "agent-still-waits"
    advice: ClassVar[str] = "set adoption.enabled=false in Tonnage's chart"


REASONS: Final[tuple[type[Reason], ...]] = (
    AdoptionNoteUnreadable,
    AgentDoesNotWait,
    AgentWithoutDevices,
    PluginNotOfOperator,
    NodeNotAdopted,
    OperatorPodsLeft,
    AgentStillWaits,
)
