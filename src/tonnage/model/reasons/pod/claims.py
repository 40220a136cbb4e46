"""What the scheduler has against a node, or against every node, for a pod's resource claims."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.facts import (
    RequestShortage,
)
from tonnage.model.reasons.lint.lint_rule import CLAIMS, LintRule
from tonnage.model.reasons.reason import ManifestReason, Reason, SchedulerReason, reason
from tonnage.model.severity import Severity


@reason
class ClaimElsewhere(SchedulerReason):
    """A claim has devices that the node does not reach; they and the claim's users are named."""

    code: ClassVar[str] = "claim-elsewhere"
    advice: ClassVar[str] = "give each pod a claim of its own (a template)"
    node_words: ClassVar[str] = "that do not reach its claim's devices"
    claim: str
    devices: tuple[str, ...]
    reserved_for: tuple[str, ...]


@reason
class ClaimError(SchedulerReason):
    """A device selector fails on a device, or a claim is written in an unknown way: the attempt ends on every
    node.
    """

    code: ClassVar[str] = "claim-error"
    advice: ClassVar[str] = "correct the expression or the request; test with `has()` what may be missing"
    node_words: ClassVar[str] = "where a device selector fails"
    claims: tuple[str, ...] | None = None
    error: str | None = None
    expression: str | None = None
    instead: str | None = None


@reason
class ClaimMissing(SchedulerReason):
    """A ResourceClaim, or the template it is made from, does not exist yet: the pod is not tried."""

    code: ClassVar[str] = "claim-missing"
    advice: ClassVar[str] = "create it, or look at kube-controller-manager"
    lasting: bool = False
    claims: tuple[str, ...]


@reason
class ClaimNotUsable(SchedulerReason):
    """A claim is being deleted, or was made for another pod of the same name: the pod is not tried; who still
    uses it is named."""

    code: ClassVar[str] = "claim-not-usable"
    advice: ClassVar[str] = "wait for them, or create the claim again"
    lasting: bool = False
    claims: tuple[str, ...]


@reason
class ClaimNotAllocatable(SchedulerReason):
    """No devices of the node meet the pod's resource claims."""

    code: ClassVar[str] = "claim-not-allocatable"
    advice: ClassVar[str] = "see what excludes each device; free or add devices"
    claims: tuple[str, ...]
    causes: tuple[str, ...] | None = None
    requests: tuple[RequestShortage, ...] | None = None
    devices: int | None = None
    pools: tuple[str, ...] | None = None

    @property
    def phrase(self) -> str:
        """The phrase, with what is in it of the facts."""
        causes = ", ".join(self.causes or ())
        return f"without devices for its claims ({causes})" if causes else "without devices for its claims"


@reason
class DeviceClassMissing(SchedulerReason, ManifestReason):
    """A request names a DeviceClass that does not exist."""

    code: ClassVar[str] = "device-class-missing"
    advice: ClassVar[str] = "create it, or correct the name"
    rule: ClassVar[LintRule] = LintRule("A DeviceClass that does not exist.", CLAIMS)
    claims: tuple[str, ...]


@reason
class ClassWithoutDevices(SchedulerReason):
    """No driver publishes a device of a class that the pod asks for, so no node can take the pod."""

    code: ClassVar[str] = "class-without-devices"
    leads: ClassVar[bool] = True
    advice: ClassVar[str] = "look at the driver that the class names"
    layer: Layer = Layer.PLUGIN
    device_class: str
    drivers: tuple[str, ...]


@reason
class ClaimWithoutCdi(Reason):
    """Beside the answer: a node that would take a pod with claims has CDI switched off, as its agent says."""

    code: ClassVar[str] = "claim-without-cdi"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "switch it on"
    layer: Layer = Layer.RUNTIME
    lasting: bool = False
    nodes: tuple[str, ...]


@reason
class FeatureGateNeeded(ManifestReason):
    """A field that the server silently drops, or refuses, unless the named feature gate is on."""

    code: ClassVar[str] = "feature-gate-needed"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "turn the gate on, or do without"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("What needs a feature gate that is off by default.", CLAIMS)
    layer: Layer = Layer.ADMISSION
    lasting: bool = False
    gate: str


REASONS: Final[tuple[type[Reason], ...]] = (
    ClaimElsewhere,
    ClaimError,
    ClaimMissing,
    ClaimNotUsable,
    ClaimNotAllocatable,
    DeviceClassMissing,
    ClassWithoutDevices,
    ClaimWithoutCdi,
    FeatureGateNeeded,
)
