"""What the API server has against a new pod, as reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.kubernetes.admission.chain import Refusal
from tonnage.decide.kubernetes.admission.limit_ranges import OutOfRange
from tonnage.decide.kubernetes.admission.pod_security import ENFORCE, Insecure
from tonnage.decide.kubernetes.admission.priority import OtherPriority
from tonnage.decide.kubernetes.admission.quota import OverQuota, Uncounted, Undeclared
from tonnage.decide.kubernetes.admission.references import ClassConflict, NamespaceEnding, NotThere
from tonnage.decide.kubernetes.admission.webhooks import Unreachable
from tonnage.diagnose.wording import listed
from tonnage.model.reasons.admission import (
    LimitRange,
    NameMissing,
    NamespaceTerminating,
    PodSecurity,
    PriorityClassUnknown,
    PriorityNotOfClass,
    RuntimeClassConflict,
    RuntimeClassMissing,
    ServiceAccountMissing,
    WebhookUnreachable,
)
from tonnage.model.reasons.facts import LimitBreach, QuotaRow
from tonnage.model.reasons.quota import (
    QuotaExceeded,
    QuotaExceededByClaim,
    QuotaNotCounted,
    QuotaNotTakenOver,
    QuotaRowsReason,
    QuotaUndeclared,
)
from tonnage.model.reasons.reason import Reason

_QUOTA: Final = "ResourceQuota admission"
_MOST_USERS: Final = 8
_NOT_THERE: Final[Mapping[str, type[NameMissing]]] = {
    "ServiceAccount": ServiceAccountMissing,
    "RuntimeClass": RuntimeClassMissing,
    "PriorityClass": PriorityClassUnknown,
}
_NAMES: Final = {
    "ServiceAccount": "service account",
    "RuntimeClass": "runtime class",
    "PriorityClass": "priority class",
}


def reason_of(refusal: Refusal, subject: str, namespace: str) -> Reason:
    """The refusal in our words; `subject` is what it is about when that is the pod itself."""
    match refusal:
        case NotThere():
            return _not_there(refusal, subject)
        case ClassConflict(name, text):
            told = f"it says other than its runtime class {name} wants: {text}"
            return RuntimeClassConflict(
                subject=subject,
                message=told,
                remedy="leave out what the class sets by itself (overhead, node labels)",
                source="API server, RuntimeClass admission",
                class_=name,
            )
        case NamespaceEnding():
            return NamespaceTerminating(
                subject=subject,
                message=f"the namespace {refusal.namespace} is being deleted, and takes nothing new",
                remedy=f"wait until it is gone and make it again, or use another; what holds it is told by "
                f"kubectl get namespace {refusal.namespace} -o yaml",
                source="API server, NamespaceLifecycle admission",
                namespace=refusal.namespace,
            )
        case OtherPriority():
            return _other_priority(refusal, subject)
        case OutOfRange():
            return _out_of_range(refusal)
        case Insecure():
            return _insecure(refusal, subject, namespace)
        case Unreachable():
            return _unreachable(refusal)
        case OverQuota():
            return over_quota(refusal)
        case Undeclared():
            return QuotaUndeclared(
                subject=f"ResourceQuota {refusal.quota.namespace}/{refusal.quota.name}",
                message=f"the quota {refusal.quota.name} wants declared: {refusal.told}",
                remedy="declare it in every container, or give the namespace a LimitRange with defaults",
                source=_QUOTA,
                quota=refusal.quota.name,
                keys=tuple(key for key, _ in refusal.missing),
            )
        case Uncounted():
            return QuotaNotCounted(
                subject=f"ResourceQuota {refusal.quota.namespace}/{refusal.quota.name}",
                message=f"the quota {refusal.quota.name} is so new that nobody has counted yet what is used "
                "of "
                f"{listed(refusal.keys)}",
                remedy="try again in a few seconds; if it stays, look at kube-controller-manager",
                source=_QUOTA,
                quota=refusal.quota.name,
                keys=tuple(refusal.keys),
            )


def over_quota(refusal: OverQuota) -> QuotaRowsReason:
    """ADM-10: what the quota allows, what is used and by whom, and what is asked for."""
    quota, rows = refusal.quota, refusal.rows
    hard, used, asked = (
        ",".join(f"{row.key}={value}" for row, value in zip(rows, column, strict=True))
        for column in (
            [row.hard for row in rows],
            [row.used for row in rows],
            [row.asked for row in rows],
        )
    )
    users = [name if amount == "1" else f"{name} ({amount})" for name, amount in refusal.users]
    shown = [
        *users[:_MOST_USERS],
        *([f"{len(users) - _MOST_USERS} more"] if len(users) > _MOST_USERS else []),
    ]
    by = f"; used by {', '.join(shown)}" if shown else ""
    scopes = f" (which counts only {', '.join(scope.name for scope in quota.scopes)})" if quota.scopes else ""
    behind = refusal.wanted_is_enough
    after = (
        f"; its spec allows {', '.join(f'{row.key}={quota.wanted[row.key]}' for row in rows)} already, which "
        "the quota controller has yet to take over"
        if behind
        else ""
        if quota.counted
        else "; the quota controller has not counted yet: so it is once it has"
    )
    kind = QuotaNotTakenOver if behind else QuotaExceeded
    return kind(
        subject=f"ResourceQuota {quota.namespace}/{quota.name}",
        message=f"the quota {quota.name}{scopes} allows {hard}, used is {used}, asked {asked}{by}{after}",
        remedy="wait; if it stays so, look at kube-controller-manager"
        if behind
        else "free some of it, or raise the quota",
        source=_QUOTA,
        lasting=not behind and any(row.lasting for row in rows),
        quota=quota.name,
        keys=tuple(row.key for row in rows),
        users=tuple(name for name, _ in refusal.users[:_MOST_USERS]),
        rows=tuple(QuotaRow(row.key, row.asked, row.used, row.hard) for row in rows),
    )


def claim_over_quota(entry: str, refusal: OverQuota) -> Reason:
    """The pod is let in, but a claim that is made for it is not: it then waits for its claim."""
    found = over_quota(refusal)
    return QuotaExceededByClaim(
        subject=found.subject,
        message=f"its claim {entry} cannot be made: {found.message}",
        remedy=found.remedy,
        source=_QUOTA,
        lasting=found.lasting,
        quota=found.quota,
        keys=found.keys,
        users=found.users,
        rows=found.rows,
        claim=entry,
        error=refusal.text,
    )


def _other_priority(refusal: OtherPriority, subject: str) -> Reason:
    own = f"its class {refusal.priority_class} gives" if refusal.priority_class else "without a class it is"
    return PriorityNotOfClass(
        subject=subject,
        message=f"spec.{refusal.field} says {refusal.given}, and {own} {refusal.computed}",
        remedy=f"leave {refusal.field} out, and name a PriorityClass that gives what is wanted",
        source="API server, Priority admission",
        field=refusal.field,
        given=refusal.given,
        computed=refusal.computed,
    )


def _not_there(refusal: NotThere, subject: str) -> Reason:
    what, where = _NAMES[refusal.kind], f" in {refusal.namespace}" if refusal.namespace else ""
    others = [name for name in refusal.others if not name.startswith("system-")]
    there = f"; there are {listed(others)}" if others else ""
    return _NOT_THERE[refusal.kind](
        subject=subject,
        message=f"the {what} {refusal.name} does not exist{where}{there}",
        remedy=f"create the {what}, or name one that exists",
        source=f"API server, {refusal.kind.removesuffix('Class')} admission",
        kind=refusal.kind,
        name=refusal.name,
        others=tuple(refusal.others),
    )


def _out_of_range(refusal: OutOfRange) -> Reason:
    found = list(dict.fromkeys(f"{b.text} ({b.where})" for b in refusal.breaches))
    return LimitRange(
        subject=f"LimitRange {refusal.namespace}/{refusal.name}",
        message=f"the limit range {refusal.name} of {refusal.namespace} does not allow it: "
        f"{'; '.join(found)}",
        remedy=f"stay within it, or have it changed: kubectl edit limitrange {refusal.name} -n "
        f"{refusal.namespace}",
        source="API server, LimitRanger admission",
        range=refusal.name,
        breaches=tuple(LimitBreach(b.resource, b.bound, b.allowed, b.where) for b in refusal.breaches),
    )


def _insecure(refusal: Insecure, subject: str, namespace: str) -> Reason:
    told = "; ".join(f"{what}: {detail}" if detail else what for what, detail in refusal.violations)
    return PodSecurity(
        subject=subject,
        message=f"the namespace {namespace} enforces pod security {refusal.policy}, and the pod violates "
        f"it: {told}",
        remedy=f"set what is named in the pod, or relax the label {ENFORCE} of the namespace",
        source="API server, PodSecurity admission",
        policy=refusal.policy,
        violations=tuple(what for what, _ in refusal.violations),
    )


def _unreachable(refusal: Unreachable) -> Reason:
    webhook = refusal.webhook
    service = "/".join(webhook.service or ())
    why = "does not exist" if refusal.service_missing else "has no running pod behind it"
    kind = f"{'mutating' if webhook.mutating else 'validating'}webhookconfiguration"
    return WebhookUnreachable(
        subject=f"Webhook {webhook.configuration}/{webhook.name}",
        message=f"new pods must be shown to the webhook {webhook.name}, and its Service {service} {why}",
        remedy=f"start what is behind {service}; or, if it is gone for good, kubectl delete {kind} "
        f"{webhook.configuration}; or set its failurePolicy to Ignore",
        source="webhook configurations, Services, Pods",
        webhook=webhook.name,
        configuration=webhook.configuration,
        service=service,
    )
