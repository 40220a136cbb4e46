"""What is wrong with the device plugin of a node, the agent or another."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.reason import NodeFault, NodeReason, reason
from tonnage.model.severity import Severity


@reason
class NodePluginReason(NodeFault):
    """What lies with a device plugin."""

    node_layer: ClassVar[NodeLayer] = NodeLayer.PLUGIN
    layer: Layer = Layer.PLUGIN


@reason
class AgentNotReady(NodePluginReason):
    """The agent runs and says that it is not ready, or does not answer."""

    code: ClassVar[str] = "agent-not-ready"
    advice: ClassVar[str] = "do what its lines ask for; read its log"
    lasting: bool = False
    status: int | None = None


class AgentNotRunning(NodePluginReason):
    """No device plugin runs on the node."""

    code: ClassVar[str] = "agent-not-running"
    advice: ClassVar[str] = "find out why its pod is missing"


@reason
class AgentSilent(NodePluginReason):
    """Agents of nodes have given no heartbeat for three minutes: what they reported may be out of date."""

    code: ClassVar[str] = "agent-silent"
    advice: ClassVar[str] = "look at its pod and its log"
    severity: ClassVar[Severity] = Severity.WARNING
    lasting: bool = False
    nodes: tuple[str, ...]
    age_s: int


@reason
class AgentStateDamaged(NodePluginReason):
    """A file in which the agent keeps its state is damaged, or was and has been set aside."""

    code: ClassVar[str] = "agent-state-damaged"
    advice: ClassVar[str] = "remove it"
    severity: ClassVar[Severity] = Severity.WARNING
    files: tuple[str, ...]


@reason
class ClaimsNotServed(NodePluginReason):
    """The node's configuration offers devices as claims, and its agent serves none."""

    code: ClassVar[str] = "claims-not-served"
    advice: ClassVar[str] = "remove the other driver, or what the agent cannot read"
    driver: str
    problem: str


@reason
class DevicesNotAllocatable(NodePluginReason):
    """The node has more devices than kubelet gives out."""

    code: ClassVar[str] = "devices-not-allocatable"
    advice: ClassVar[str] = "see the condition GPUsHealthy"
    resource: str
    capacity: int
    allocatable: int


@reason
class GpuConfigUnreadable(NodePluginReason):
    """The configuration kept on disk cannot be read."""

    code: ClassVar[str] = "gpu-config-unreadable"
    advice: ClassVar[str] = "remove it"
    severity: ClassVar[Severity] = Severity.WARNING
    problem: str


@reason
class PodRefusedByPlugin(NodePluginReason):
    """Kubelet failed a pod because the plugin refused its request."""

    code: ClassVar[str] = "pod-refused-by-plugin"
    advice: ClassVar[str] = "ask for what is allowed; delete the pod"
    severity: ClassVar[Severity] = Severity.WARNING
    lasting: bool = False
    pod: str | None = None
    resource: str | None = None
    requests: int | None = None


@reason
class TwoPlugins(NodePluginReason):
    """Two device plugins run on the node."""

    code: ClassVar[str] = "two-plugins"
    advice: ClassVar[str] = "remove one"
    plugins: tuple[str, ...]


REASONS: Final[tuple[type[NodeReason], ...]] = (
    AgentNotReady,
    AgentNotRunning,
    AgentSilent,
    AgentStateDamaged,
    ClaimsNotServed,
    DevicesNotAllocatable,
    GpuConfigUnreadable,
    PodRefusedByPlugin,
    TwoPlugins,
)
