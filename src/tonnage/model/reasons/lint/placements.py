"""What lint has against where a pod shall run: on the nodes that there are, or on any."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.reasons.lint.lint_rule import SCHEDULER, LintRule
from tonnage.model.reasons.reason import ManifestFault, Reason, SchedulerReason, reason
from tonnage.model.severity import Severity


@reason
class PlacementReason(SchedulerReason, ManifestFault):
    """What keeps a manifest's pods from nodes. Its subject is the object, which lint fills in."""

    subject: str = ""


@reason
class ComparisonNotInteger(PlacementReason):
    """`Gt` or `Lt` with a value that is not a whole number: accepted, but no node matches."""

    code: ClassVar[str] = "comparison-not-integer"
    advice: ClassVar[str] = "write a whole number in quotes, without a unit"
    rule: ClassVar[LintRule] = LintRule("Gt or Lt with a value that is not a whole number.", SCHEDULER)
    operator: str
    value: str


@reason
class ProductNotTheLabel(PlacementReason):
    """A product's name that the label `nvidia.com/gpu.product` never has."""

    code: ClassVar[str] = "product-not-the-label"
    advice: ClassVar[str] = "use the label's value, which lint gives"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("A product name that is not the label's.", "GPU feature discovery")
    value: str
    labels: tuple[str, ...]


@reason
class ProductUnknown(PlacementReason):
    """A GPU product that lint does not know; no node may ever have the label."""

    code: ClassVar[str] = "product-unknown"
    advice: ClassVar[str] = "compare it with the nodes' labels"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("A GPU product that lint does not know.", "GPU feature discovery")
    value: str


@reason
class GpuLabelUnknown(PlacementReason):
    """A label of NVIDIA's that is misspelt, or a value that it never has."""

    code: ClassVar[str] = "gpu-label-unknown"
    advice: ClassVar[str] = "use the spelling or one of the values that lint gives"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule(
        "NVIDIA's node labels and values that no node has.", "GPU feature discovery"
    )
    key: str
    value: str | None = None


@reason
class SelectsNoNode(PlacementReason):
    """A node selector or affinity that no node meets; what nodes have is named."""

    code: ClassVar[str] = "selects-no-node"
    advice: ClassVar[str] = "widen it"
    rule: ClassVar[LintRule] = LintRule("Node labels that no node has.", SCHEDULER)
    key: str | None = None
    values: tuple[str, ...] | None = None
    node_values: tuple[str, ...] | None = None


@reason
class SingleNode(PlacementReason):
    """Only one node offers what the pod asks for."""

    code: ClassVar[str] = "single-node"
    advice: ClassVar[str] = "select another model or profile too"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("Only one node offers what is asked for.", SCHEDULER)
    node: str
    resources: tuple[str, ...]


@reason
class TolerationMatchesNothing(PlacementReason):
    """Nodes have a taint of that key with another value or effect; a note where none has the key."""

    code: ClassVar[str] = "toleration-matches-nothing"
    advice: ClassVar[str] = "write the taint's value and effect"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("A toleration that matches no taint of any node.", SCHEDULER)
    key: str
    taints: tuple[str, ...]


@reason
class FitsNowhere(PlacementReason):
    """No node would ever take the pod; the engine's reason is quoted."""

    code: ClassVar[str] = "fits-nowhere"
    advice: ClassVar[str] = "see `tonnage explain -f`"
    rule: ClassVar[LintRule] = LintRule("No node would ever take the pod.", SCHEDULER)
    answer: str


@reason
class WholeAndShared(PlacementReason):
    """A pod that asks for whole and for shared GPUs."""

    code: ClassVar[str] = "whole-and-shared"
    advice: ClassVar[str] = "ask for one of them"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("A pod that asks for whole and for shared GPUs.", SCHEDULER)
    whole: str
    shared: str


REASONS: Final[tuple[type[Reason], ...]] = (
    ComparisonNotInteger,
    ProductNotTheLabel,
    ProductUnknown,
    GpuLabelUnknown,
    SelectsNoNode,
    SingleNode,
    TolerationMatchesNothing,
    FitsNowhere,
    WholeAndShared,
)
