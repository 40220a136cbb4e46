"""What the scheduler's filters have against a node."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.facts import (
    AMOUNT,
    FailingRequirement,
    Guest,
    Holder,
)
from tonnage.model.reasons.lint.lint_rule import SCHEDULER, LintRule
from tonnage.model.reasons.reason import ManifestReason, Reason, SchedulerReason, reason


@reason
class AmountReason(SchedulerReason):
    """A node that has not what is asked of one resource."""

    resource: str
    requested: Annotated[int, AMOUNT]
    allocatable: Annotated[int, AMOUNT]
    capacity: Annotated[int, AMOUNT]
    used: Annotated[int, AMOUNT]
    free: Annotated[int, AMOUNT]


@reason
class NodeUnschedulable(SchedulerReason):
    """The node is cordoned; the reason names the program and the time where the node has them."""

    code: ClassVar[str] = "node-unschedulable"
    advice: ClassVar[str] = "find out why, then uncordon it"
    node_words: ClassVar[str] = "cordoned"
    lasting: bool = False
    by: str
    at: str | None
    work: str


@reason
class NodeNameMismatch(SchedulerReason):
    """`spec.nodeName` names another node."""

    code: ClassVar[str] = "node-name-mismatch"
    advice: ClassVar[str] = "leave it out"
    node_words: ClassVar[str] = "other than the one it names"
    wanted: str | None = None
    node: str | None = None


@reason
class TaintNotTolerated(SchedulerReason, ManifestReason):
    """A taint of the node (or of every node that would do), named with key, value and effect."""

    code: ClassVar[str] = "taint-not-tolerated"
    advice: ClassVar[str] = "tolerate it, if the pod belongs there"
    rule: ClassVar[LintRule] = LintRule(
        "Every node that would do has a taint that is not tolerated.", SCHEDULER
    )
    key: str
    value: str
    effect: str

    @property
    def phrase(self) -> str:
        """The phrase, with what is in it of the facts."""
        taint = f"{self.key}={self.value}" if self.value else self.key
        return f"with the untolerated taint {taint}:{self.effect}"


@reason
class NodeAffinityMismatch(SchedulerReason):
    """nodeSelector or required node affinity excludes the node; the label, the wanted and the actual value
    are named.
    """

    code: ClassVar[str] = "node-affinity-mismatch"
    advice: ClassVar[str] = "widen it, or label the node"
    node_words: ClassVar[str] = "outside its node selector or affinity"
    failing: tuple[FailingRequirement, ...]
    terms: int


@reason
class NodeNotPinned(SchedulerReason):
    """The affinity pins the pod to other nodes by name."""

    code: ClassVar[str] = "node-not-pinned"
    advice: ClassVar[str] = "widen it"
    node_words: ClassVar[str] = "other than the one it names"
    wanted: tuple[str, ...]


@reason
class HostPortTaken(SchedulerReason):
    """Another pod on the node holds the host port; it is named."""

    code: ClassVar[str] = "host-port-taken"
    advice: ClassVar[str] = "use another port or a Service"
    node_words: ClassVar[str] = "where another pod holds its host port"
    lasting: bool = False
    port: int
    protocol: str
    holder: str


@reason
class TooManyPods(SchedulerReason):
    """The node takes no more pods."""

    code: ClassVar[str] = "too-many-pods"
    advice: ClassVar[str] = "end some, or raise kubelet's maxPods"
    node_words: ClassVar[str] = "full of pods"
    lasting: bool = False
    limit: int
    pods: int


@reason
class InsufficientResource(AmountReason):
    """The node has the resource but too little is free; the holders of devices are named."""

    code: ClassVar[str] = "insufficient-resource"
    advice: ClassVar[str] = "wait, free, or use another node"
    holders: tuple[Holder | Guest, ...] | None = None

    @property
    def phrase(self) -> str:
        """The phrase, with what is in it of the facts."""
        return f"without enough free {self.resource}"


class ResourceTooLarge(AmountReason):
    """More is asked than the whole node has."""

    code: ClassVar[str] = "resource-too-large"
    advice: ClassVar[str] = "ask for less, or add larger nodes"

    @property
    def phrase(self) -> str:
        """The phrase, with what is in it of the facts."""
        return f"too small in {self.resource}"


@reason
class ResourceNotAdvertised(SchedulerReason, ManifestReason):
    """The node does not offer the resource, or no node does; related names that nodes offer are named. If a
    GPU is known to be there, the layer below is named.
    """

    code: ClassVar[str] = "resource-not-advertised"
    leads: ClassVar[bool] = True
    layers: ClassVar[tuple[Layer, ...]] = (Layer.PLUGIN, Layer.DRIVER, Layer.HARDWARE, Layer.SCHEDULER)
    advice: ClassVar[str] = "look at the named layer"
    rule: ClassVar[LintRule] = LintRule("A resource that no node offers.", SCHEDULER)
    resource: str
    requested: Annotated[int | None, AMOUNT] = None
    allocatable: Annotated[int | None, AMOUNT] = None
    capacity: Annotated[int | None, AMOUNT] = None
    used: Annotated[int | None, AMOUNT] = None
    free: Annotated[int | None, AMOUNT] = None
    instead: tuple[str, ...] | None = None
    nodes_with_gpu: tuple[str, ...] | None = None
    nodes_with_capacity: tuple[str, ...] | None = None
    meant: str | None = None
    node: str | None = None

    @property
    def phrase(self) -> str:
        """The phrase, with what is in it of the facts."""
        if self.layer is Layer.SCHEDULER:
            return f"without {self.resource}"
        if self.instead:
            return f"offering other names than {self.resource}"
        return f"with a GPU but not offering {self.resource}"


@reason
class TopologyLabelMissing(SchedulerReason):
    """The node lacks the label over which the pod must be spread."""

    code: ClassVar[str] = "topology-label-missing"
    advice: ClassVar[str] = "label it"
    node_words: ClassVar[str] = "without the label over which it is spread"
    key: str


@reason
class TopologySkew(SchedulerReason):
    """One more pod there would be spread too unevenly."""

    code: ClassVar[str] = "topology-skew"
    advice: ClassVar[str] = "make room elsewhere, or raise maxSkew"
    node_words: ClassVar[str] = "where one more would be spread too unevenly"
    lasting: bool = False
    key: str
    value: str
    count: int
    least: int
    max_skew: int
    skew: int
    min_domains: int | None = None
    domains: int | None = None


@reason
class PodAffinityMismatch(SchedulerReason):
    """The pods that this one must be with are elsewhere."""

    code: ClassVar[str] = "pod-affinity-mismatch"
    advice: ClassVar[str] = "start them, or relax the rule"
    node_words: ClassVar[str] = "without the pods that it must be with"
    lasting: bool = False
    topology_keys: str
    selectors: str


@reason
class PodAntiAffinity(SchedulerReason):
    """A pod that this one avoids is in the same topology; it is named."""

    code: ClassVar[str] = "pod-anti-affinity"
    advice: ClassVar[str] = "wait, relax the rule, or add nodes"
    node_words: ClassVar[str] = "with a pod that it avoids"
    lasting: bool = False
    topology_key: str
    pod: str


@reason
class PodAntiAffinityOfOthers(SchedulerReason):
    """A pod there avoids this one; it is named."""

    code: ClassVar[str] = "pod-anti-affinity-of-others"
    advice: ClassVar[str] = "wait, relax the rule, or add nodes"
    node_words: ClassVar[str] = "with a pod that avoids it"
    lasting: bool = False
    topology_key: str
    pod: str


REASONS: Final[tuple[type[Reason], ...]] = (
    NodeUnschedulable,
    NodeNameMismatch,
    TaintNotTolerated,
    NodeAffinityMismatch,
    NodeNotPinned,
    HostPortTaken,
    TooManyPods,
    InsufficientResource,
    ResourceTooLarge,
    ResourceNotAdvertised,
    TopologyLabelMissing,
    TopologySkew,
    PodAffinityMismatch,
    PodAntiAffinity,
    PodAntiAffinityOfOthers,
)
