"""What the quotas of a namespace have against a pod."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.facts import (
    QuotaRow,
)
from tonnage.model.reasons.lint.lint_rule import QUOTAS, LintRule
from tonnage.model.reasons.reason import ManifestReason, Reason, reason
from tonnage.model.severity import Severity


@reason
class QuotaReason(Reason):
    """What a ResourceQuota says."""

    layer: Layer = Layer.QUOTA
    quota: str


@reason
class QuotaRowsReason(QuotaReason):
    """A quota with too little left, row by row."""

    general: ClassVar[frozenset[str]] = Reason.general | {"holders"}
    keys: tuple[str, ...]
    users: tuple[str, ...]
    rows: tuple[QuotaRow, ...]
    holders: tuple[tuple[str, str], ...] = ()
    """Everybody who has some of the first key, and how much, the largest first."""


class QuotaExceeded(QuotaRowsReason):
    """A ResourceQuota of the namespace has too little left; who uses it is named."""

    code: ClassVar[str] = "quota-exceeded"
    advice: ClassVar[str] = "free some, or raise the quota"


class QuotaNotTakenOver(QuotaRowsReason):
    """The quota's spec allows it, but the quota controller has not processed the spec yet: the server uses
    the status.
    """

    code: ClassVar[str] = "quota-not-taken-over"
    advice: ClassVar[str] = "wait; look at kube-controller-manager"


@reason
class QuotaExceededByClaim(QuotaRowsReason):
    """The pod is let in, but the claim that is made for it exceeds a quota on devices."""

    code: ClassVar[str] = "quota-exceeded-by-claim"
    leads: ClassVar[bool] = True
    settles: ClassVar[bool] = True
    advice: ClassVar[str] = "free some, or raise the quota"
    claim: str
    error: str


@reason
class QuotaKeyWithoutEffect(QuotaReason, ManifestReason):
    """A key of a ResourceQuota for a device without `requests.`: accepted, and never enforced. `explain` says
    it beside the answer, where the device is asked for."""

    code: ClassVar[str] = "quota-key-without-effect"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "write `requests.`"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("A quota key that is accepted and never enforced.", QUOTAS)
    lasting: bool = False
    key: str
    hard: str


@reason
class QuotaNotCounted(QuotaReason):
    """A quota is so new that its use has not been counted yet."""

    code: ClassVar[str] = "quota-not-counted"
    advice: ClassVar[str] = "try again; look at kube-controller-manager if it stays"
    lasting: bool = False
    keys: tuple[str, ...]


@reason
class QuotaUndeclared(QuotaReason):
    """A ResourceQuota on cpu or memory makes every container say how much it needs."""

    code: ClassVar[str] = "quota-undeclared"
    advice: ClassVar[str] = "declare it"
    general: ClassVar[frozenset[str]] = Reason.general | {"missing"}
    keys: tuple[str, ...]
    missing: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """By key, the containers that do not declare it."""


REASONS: Final[tuple[type[Reason], ...]] = (
    QuotaExceeded,
    QuotaNotTakenOver,
    QuotaExceededByClaim,
    QuotaKeyWithoutEffect,
    QuotaNotCounted,
    QuotaUndeclared,
)
