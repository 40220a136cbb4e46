"""What a node's kubelet, or the container runtime that it asks, has against a pod."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.reason import Reason, reason


@reason
class KubeletReason(Reason):
    """What a kubelet says."""

    layer: Layer = Layer.KUBELET


@reason
class ContainerFailed(Reason):
    """The pod's containers ended with an error."""

    code: ClassVar[str] = "container-failed"
    advice: ClassVar[str] = "read the logs"
    layer: Layer = Layer.APPLICATION
    reason: str


@reason
class ContainerWaiting(Reason):
    """The pod has a node, but a container cannot start (or crashes again and again)."""

    code: ClassVar[str] = "container-waiting"
    advice: ClassVar[str] = "follow kubelet's reason, which is quoted"
    layers: ClassVar[tuple[Layer, ...]] = (Layer.RUNTIME, Layer.APPLICATION)
    reason: str


@reason
class KubeletRejected(KubeletReason):
    """Kubelet failed the pod at admission (`UnexpectedAdmissionError`); the words that it quotes give the
    layer."""

    code: ClassVar[str] = "kubelet-rejected"
    advice: ClassVar[str] = "delete the pod after correcting the cause"
    layers: ClassVar[tuple[Layer, ...]] = (Layer.KUBELET, Layer.PLUGIN, Layer.HARDWARE)
    node: str | None = None
    reason: str


@reason
class NodeMissing(KubeletReason):
    """The pod is bound to a node that is not in the cluster."""

    code: ClassVar[str] = "node-missing"
    advice: ClassVar[str] = "delete the pod so that its owner creates another"
    node: str


@reason
class NodeNotReady(KubeletReason):
    """The cluster closed the node because its kubelet is not ready or silent; the condition's reason is
    quoted.
    """

    code: ClassVar[str] = "node-not-ready"
    advice: ClassVar[str] = "look at kubelet and network there"
    node_words: ClassVar[str] = "not ready"
    lasting: bool = False
    key: str
    value: str
    effect: str


@reason
class NumaUndecided(KubeletReason):
    """A note: Tonnage cannot tell whether kubelet can align the pod's devices on NUMA nodes; what is missing
    is named.
    """

    code: ClassVar[str] = "numa-undecided"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "let the agent report it, or look at the node"
    lasting: bool = False


REASONS: Final[tuple[type[Reason], ...]] = (
    ContainerFailed,
    ContainerWaiting,
    KubeletRejected,
    NodeMissing,
    NodeNotReady,
    NumaUndecided,
)
