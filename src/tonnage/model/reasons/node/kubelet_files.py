"""What is wrong with kubelet's sockets and files, as plugins need them."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.reason import NodeFault, NodeReason, reason
from tonnage.model.severity import Severity


@reason
class KubeletFileReason(NodeFault):
    """What lies with kubelet's sockets and files."""

    node_layer: ClassVar[NodeLayer] = NodeLayer.KUBELET
    layer: Layer = Layer.KUBELET


@reason
class KubeletCheckpointUnreadable(KubeletFileReason):
    """Kubelet's checkpoint of devices is malformed, or cannot be read."""

    code: ClassVar[str] = "kubelet-checkpoint-unreadable"
    advice: ClassVar[str] = "drain; remove it while kubelet is stopped"
    problem: str


@reason
class KubeletSocketDead(KubeletFileReason):
    """No program listens on kubelet's registration socket."""

    code: ClassVar[str] = "kubelet-socket-dead"
    advice: ClassVar[str] = "restart kubelet"
    answer: str


class KubeletSocketMissing(KubeletFileReason):
    """Kubelet's registration socket is missing."""

    code: ClassVar[str] = "kubelet-socket-missing"
    advice: ClassVar[str] = "start kubelet"


@reason
class KubeletSocketNotMounted(KubeletFileReason):
    """A plugin's container lacks the hostPath mount of kubelet's folder."""

    code: ClassVar[str] = "kubelet-socket-not-mounted"
    advice: ClassVar[str] = "add it to the DaemonSet"
    process: str | None = None
    pid: int | None = None


@reason
class PluginSocketDead(KubeletFileReason):
    """A plugin ended and left its socket."""

    code: ClassVar[str] = "plugin-socket-dead"
    advice: ClassVar[str] = "restart it"
    severity: ClassVar[Severity] = Severity.WARNING
    sockets: tuple[str, ...]


class PodResourcesMissing(KubeletFileReason):
    """Kubelet's pod resources socket is missing."""

    code: ClassVar[str] = "pod-resources-missing"
    advice: ClassVar[str] = "restart kubelet"
    severity: ClassVar[Severity] = Severity.WARNING


REASONS: Final[tuple[type[NodeReason], ...]] = (
    KubeletCheckpointUnreadable,
    KubeletSocketDead,
    KubeletSocketMissing,
    KubeletSocketNotMounted,
    PluginSocketDead,
    PodResourcesMissing,
)
