"""What is said of writes that the API server refuses: which object, why, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.json_access import mappings, text
from tonnage.model.names import AGENTS_CONFIG, AGENTS_COUNTERS, AGENTS_LAYOUTS
from tonnage.model.operands import DCGM, OPERANDS

CONDITION: Final = "tonnage.dev/RequestsRefused"
_MOST: Final = 5
_LONGEST: Final = 300
_FORBIDDEN: Final = 403
_PASSING: Final = frozenset({404, 409, 429, 502, 503, 504})
"""Somebody else was quicker, or the server is busy or away: the next try goes well."""
_MISSING: Final = "a ResourceQuota, a webhook or Pod Security may forbid them; see its events"
_INVALID: Final = 422
_SECTIONS: Final = {
    **{
        f"DaemonSet {operand.daemon_set}": f"spec.{operand.section}" for operand in (*OPERANDS.values(), DCGM)
    },
    "RuntimeClass nvidia-cdi": "spec.cdi",
    "RuntimeClass nvidia-legacy": "spec.cdi",
    f"ConfigMap {AGENTS_CONFIG}": "spec.devicePlugin.config",
    f"ConfigMap {AGENTS_LAYOUTS}": "spec.migManager.config",
    f"ConfigMap {AGENTS_COUNTERS}": "spec.dcgmExporter.config",
}
"""The part of a ClusterPolicy for which each object is made."""
_DRIVERS: Final = "nvidia-driver-daemonset-"
_QUOTA: Final = "exceeded quota"
_WEBHOOK: Final = ("admission webhook", "failed calling webhook", "ValidatingAdmissionPolicy")


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """The object, in words; what the API server said, and its code. `pods`: it is a controller's request.

    `field` is the path of the ClusterPolicy for which the object is; empty: it is for none alone.
    """

    subject: str
    message: str
    code: int = 0
    pods: bool = False
    field: str = ""

    @property
    def reason(self) -> str:
        """Whose refusal it is, in CamelCase."""
        if self.pods:
            return "PodsMissing"
        if _QUOTA in self.message:
            return "QuotaExceeded"
        if any(words in self.message for words in _WEBHOOK):
            return "WebhookRefuses"
        return "Forbidden" if self.code == _FORBIDDEN else "Refused"

    @property
    def remedy(self) -> str:
        """What to do."""
        match self.reason:
            case "PodsMissing":
                kind, _, name = self.subject.partition(" ")
                namespace, _, name = name.rpartition("/")
                return f"{_MISSING}: kubectl describe {kind.lower()} {name} --namespace {namespace}"
            case "QuotaExceeded":
                return "raise the namespace's ResourceQuota"
            case "WebhookRefuses":
                return "correct the webhook, or exempt the controller's service account from it"
            case "Forbidden":
                return "give the controller its rights back: helm upgrade writes its roles again"
            case _:
                return "correct what the message names"

    def __str__(self) -> str:
        subject = f"{self.subject} ({self.field})" if self.field else self.subject
        return f"{subject}: {self.message[:_LONGEST]}; {self.remedy}"


def policy_field(kind: str, name: str, code: int = 0) -> str:
    """The path in a ClusterPolicy of what an object is made for; what is invalid comes from all of them.

    >>> policy_field("DaemonSet", "nvidia-dcgm-exporter"), policy_field("Node", "a")
    ('spec.dcgmExporter', '')
    """
    if kind == "DaemonSet" and name.startswith(_DRIVERS):
        return "spec.driver"
    section = _SECTIONS.get(f"{kind} {name}", "spec.operator.runtimeClass" if kind == "RuntimeClass" else "")
    return "spec.daemonsets" if section and kind == "DaemonSet" and code == _INVALID else section


def is_refusal(code: int) -> bool:
    """Whether an answer with this code means that somebody has to act."""
    return code >= 400 and code not in _PASSING


def refusal_conditions(refused: Sequence[RefusedRequest], status: JsonObject) -> list[JsonObject]:
    """The condition, without times; a policy of which none was ever refused has none."""
    stands = any(text(condition, "type") == CONDITION for condition in mappings(status, "conditions"))
    if not refused and not stands:
        return []
    lines = [str(request) for request in refused[:_MOST]]
    more = len(refused) - len(lines)
    lines += [f"and {more} more"] if more else []
    reason = refused[0].reason if refused else "None"
    words = "\n".join(["the last good state stays", *lines]) if refused else ""
    return [{"type": CONDITION, "status": "True" if refused else "False", "reason": reason, "message": words}]
