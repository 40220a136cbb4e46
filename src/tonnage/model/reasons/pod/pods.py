"""What the scheduler says of a pod whatever the node, and what it does not look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.facts import (
    GpuFamily,
    GpuSet,
    SharedDevices,
)
from tonnage.model.reasons.lint.lint_rule import DEVICE_PLUGIN, LintRule
from tonnage.model.reasons.reason import ManifestReason, Reason, SchedulerReason, reason
from tonnage.model.severity import Severity


class NoNodes(SchedulerReason):
    """The cluster has no nodes."""

    code: ClassVar[str] = "no-nodes"
    advice: ClassVar[str] = "add one"


class NodePinsConflict(SchedulerReason):
    """The affinity pins the pod to different nodes at once."""

    code: ClassVar[str] = "node-pins-conflict"
    advice: ClassVar[str] = "correct `matchFields`"


class AffinityNotReadable(SchedulerReason):
    """The preferred node affinity has a value that no label can have, such as `-1`; the scheduler fails as
    soon as two nodes fit.
    """

    code: ClassVar[str] = "affinity-not-readable"
    advice: ClassVar[str] = "correct the value"


@reason
class NotModelled(SchedulerReason):
    """The pod uses something that Tonnage does not decide yet, so the verdict is UNKNOWN."""

    code: ClassVar[str] = "not-modelled"
    advice: ClassVar[str] = "see the real scheduler's answer"
    claims: tuple[str, ...] | None = None
    feature: str | None = None


@reason
class ReleaseUnverified(SchedulerReason):
    """The answer is for a release that was not compared with its scheduler (1.31 to 1.33, 1.34.0, 1.34.1,
    older or newer ones).
    """

    code: ClassVar[str] = "release-unverified"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "take its texts with care"
    lasting: bool = False
    release: str


@reason
class SchedulingGated(SchedulerReason):
    """Scheduling gates hold the pod; who usually sets them is named."""

    code: ClassVar[str] = "scheduling-gated"
    advice: ClassVar[str] = "wait for the queue or quota that set the gate"
    lasting: bool = False
    gates: tuple[str, ...]
    owners: tuple[str, ...]
    queue: str | None


@reason
class OtherScheduler(SchedulerReason):
    """The pod belongs to another scheduler."""

    code: ClassVar[str] = "other-scheduler"
    advice: ClassVar[str] = "ask that scheduler"
    unforeseeable: ClassVar[bool] = True
    scheduler: str


@reason
class SchedulerSilent(SchedulerReason):
    """No visible scheduler serves the pod's schedulerName, or none has reported for minutes."""

    code: ClassVar[str] = "scheduler-silent"
    advice: ClassVar[str] = "start it, or correct the name"
    settles: ClassVar[bool] = True
    scheduler: str


@reason
class HamiDevicesShort(SchedulerReason):
    """No node has parts of GPUs for a pod of HAMi's scheduler, by what HAMi noted on nodes and pods, or by
    its words in the pod's condition, which are explained."""

    code: ClassVar[str] = "hami-devices-short"
    advice: ClassVar[str] = "ask for less memory or cores, or wait"
    settles: ClassVar[bool] = True
    scheduler: str


@reason
class HeldAndIdle(SchedulerReason):
    """Beside the answer: pods hold the needed GPUs but hardly use them; what is allocated counts, not what is
    used.
    """

    code: ClassVar[str] = "held-and-idle"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "ask their owners, or share GPUs"
    lasting: bool = False
    idle: Mapping[str, tuple[str, ...]]


@reason
class ConditionDiffers(SchedulerReason):
    """Beside the answer: what the scheduler wrote into the pod's condition PodScheduled is not what follows
    from the objects; old and new wordings count as the same."""

    code: ClassVar[str] = "condition-differs"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "wait for the next attempt; compare with the scheduler's configuration"
    lasting: bool = False
    theirs: Mapping[str, int] | None = None
    ours: Mapping[str, int] | None = None


@reason
class LabelOfNobody(SchedulerReason):
    """Beside the answer: no node has a label, or a value of it, that the pod selects nodes by; who usually
    sets it is named."""

    code: ClassVar[str] = "label-of-nobody"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "run what sets it, or correct the value"
    key: str
    values: tuple[str, ...]


@reason
class LinksUndecided(SchedulerReason):
    """A pod with several GPUs fits nodes whose links between GPUs differ, and does not choose."""

    code: ClassVar[str] = "links-undecided"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "require a product or a label"
    lasting: bool = False
    resource: str
    families: tuple[GpuFamily, ...]


@reason
class ReplicasNotDevices(SchedulerReason, ManifestReason):
    """The pod asks for several of a resource that nodes offer as replicas: they are fewer GPUs than that."""

    code: ClassVar[str] = "replicas-not-devices"
    aside: ClassVar[bool] = True
    advice: ClassVar[str] = "ask for one, or select nodes whose GPUs are not shared"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule(
        "Several units of a resource that nodes offer as replicas.", DEVICE_PLUGIN
    )
    layer: Layer = Layer.PLUGIN
    lasting: bool = False
    resource: str
    requested: int
    nodes: tuple[SharedDevices, ...]


@reason
class LabelNotTrue(SchedulerReason):
    """A node that the pod may get by labels of GPUs has others, as its agent reads them."""

    code: ClassVar[str] = "label-not-true"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "correct the label, or restart what publishes it"
    severity: ClassVar[Severity] = Severity.WARNING
    layer: Layer = Layer.PLUGIN
    lasting: bool = False
    node: str
    differences: tuple[str, ...]


@reason
class LinksBelowFamily(SchedulerReason):
    """A running pod's GPUs have far slower links than as many on nodes of another family."""

    code: ClassVar[str] = "links-below-family"
    advice: ClassVar[str] = "select those nodes"
    node: str
    has: GpuSet
    nodes: tuple[str, ...]
    there: GpuSet


@reason
class ProductUndecided(SchedulerReason):
    """A warning: several GPU products would do, and the pod does not say which."""

    code: ClassVar[str] = "product-undecided"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "require a product, if it matters"
    lasting: bool = False
    products: Mapping[str, tuple[str, ...]]
    totals: Mapping[str, int]


@reason
class Preemption(SchedulerReason):
    """Pods of lower priority are (or would be) evicted from a node; they are named, with the disruption
    budgets that this breaks.
    """

    code: ClassVar[str] = "preemption"
    advice: ClassVar[str] = "wait"
    lasting: bool = False
    victims: tuple[str, ...]
    budgets: tuple[str, ...]


@reason
class PreemptionNotAllowed(SchedulerReason):
    """Beside the answer: the pod's preemptionPolicy is Never, though pods of lower priority are there."""

    code: ClassVar[str] = "preemption-not-allowed"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "wait, or let it preempt"
    lasting: bool = False
    priority: int
    priority_class: str


@reason
class PreemptionNotHelpful(SchedulerReason):
    """Beside the answer: there are pods of lower priority, but their end would not make any node take the
    pod.
    """

    code: ClassVar[str] = "preemption-not-helpful"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "address the nodes' reasons"
    priority: int


@reason
class KindNotRead(Reason):
    """Objects of a kind that bears on the answer may not be listed, or are not in the snapshot; where the
    verdict hangs on them it is UNKNOWN."""

    code: ClassVar[str] = "kind-not-read"
    advice: ClassVar[str] = "get the right to list them"
    layers: ClassVar[tuple[Layer, ...]] = ()
    lasting: bool = False
    kind: str


REASONS: Final[tuple[type[Reason], ...]] = (
    NoNodes,
    NodePinsConflict,
    AffinityNotReadable,
    NotModelled,
    ReleaseUnverified,
    SchedulingGated,
    OtherScheduler,
    SchedulerSilent,
    HamiDevicesShort,
    HeldAndIdle,
    ConditionDiffers,
    LabelOfNobody,
    LinksUndecided,
    LabelNotTrue,
    ReplicasNotDevices,
    LinksBelowFamily,
    ProductUndecided,
    Preemption,
    PreemptionNotAllowed,
    PreemptionNotHelpful,
    KindNotRead,
)
