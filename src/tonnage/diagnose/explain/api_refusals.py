"""What the API server has against a new pod, as reasons."""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.admission.chain import Refusal
from tonnage.decide.kubernetes.admission.limit_ranges import OutOfRange
from tonnage.decide.kubernetes.admission.pod_security import ENFORCE, Insecure
from tonnage.decide.kubernetes.admission.priority import OtherPriority
from tonnage.decide.kubernetes.admission.quota import OverQuota, Uncounted, Undeclared
from tonnage.decide.kubernetes.admission.references import ClassConflict, NamespaceEnding, NotThere
from tonnage.decide.kubernetes.admission.webhooks import Unreachable
from tonnage.diagnose.wording import listed
from tonnage.model.json import JsonValue
from tonnage.model.verdict import Code, Layer, Reason

_QUOTA: Final = "ResourceQuota admission"
_MOST_USERS: Final = 8
_NOT_THERE: Final = {
    "ServiceAccount": Code.SERVICE_ACCOUNT_MISSING,
    "RuntimeClass": Code.RUNTIME_CLASS_MISSING,
    "PriorityClass": Code.PRIORITY_CLASS_UNKNOWN,
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
            return Reason(
                Code.RUNTIME_CLASS_CONFLICT,
                Layer.ADMISSION,
                subject,
                told,
                {"class": name},
                "leave out what the class sets by itself (overhead, node labels)",
                "API server, RuntimeClass admission",
            )
        case NamespaceEnding():
            return Reason(
                Code.NAMESPACE_ENDING,
                Layer.ADMISSION,
                subject,
                f"the namespace {refusal.namespace} is being deleted, and takes nothing new",
                {"namespace": refusal.namespace},
                f"wait until it is gone and make it again, or use another; what holds it is told by "
                f"kubectl get namespace {refusal.namespace} -o yaml",
                "API server, NamespaceLifecycle admission",
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
            return Reason(
                Code.QUOTA_UNDECLARED,
                Layer.QUOTA,
                f"ResourceQuota {refusal.quota.namespace}/{refusal.quota.name}",
                f"the quota {refusal.quota.name} wants declared: {refusal.told}",
                {"quota": refusal.quota.name, "keys": [key for key, _ in refusal.missing]},
                "declare it in every container, or give the namespace a LimitRange with defaults",
                _QUOTA,
            )
        case Uncounted():
            return Reason(
                Code.QUOTA_UNCOUNTED,
                Layer.QUOTA,
                f"ResourceQuota {refusal.quota.namespace}/{refusal.quota.name}",
                f"the quota {refusal.quota.name} is so new that nobody has counted yet what is used of "
                f"{listed(refusal.keys)}",
                {"quota": refusal.quota.name, "keys": [*refusal.keys]},
                "try again in a few seconds; if it stays, look at kube-controller-manager",
                _QUOTA,
                lasting=False,
            )


def over_quota(refusal: OverQuota) -> Reason:
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
    table: list[JsonValue] = [
        {"key": row.key, "asked": row.asked, "used": row.used, "hard": row.hard} for row in rows
    ]
    behind = refusal.wanted_is_enough
    after = (
        f"; its spec allows {', '.join(f'{row.key}={quota.wanted[row.key]}' for row in rows)} already, which "
        "the quota controller has yet to take over"
        if behind
        else ""
        if quota.counted
        else "; the quota controller has not counted yet: so it is once it has"
    )
    return Reason(
        Code.QUOTA_BEHIND if behind else Code.QUOTA_EXCEEDED,
        Layer.QUOTA,
        f"ResourceQuota {quota.namespace}/{quota.name}",
        f"the quota {quota.name}{scopes} allows {hard}, used is {used}, asked {asked}{by}{after}",
        {
            "quota": quota.name,
            "keys": [row.key for row in rows],
            "users": [name for name, _ in refusal.users[:_MOST_USERS]],
            "rows": table,
        },
        "wait; if it stays so, look at kube-controller-manager"
        if behind
        else "free some of it, or raise the quota",
        _QUOTA,
        lasting=not behind and any(row.lasting for row in rows),
    )


def claim_over_quota(entry: str, refusal: OverQuota) -> Reason:
    """The pod is let in, but a claim that is made for it is not: it then waits for its claim."""
    found = over_quota(refusal)
    return Reason(
        Code.QUOTA_CLAIM,
        Layer.QUOTA,
        found.subject,
        f"its claim {entry} cannot be made: {found.message}",
        {**found.facts, "claim": entry, "error": refusal.text},
        found.remedy,
        _QUOTA,
        lasting=found.lasting,
    )


def _other_priority(refusal: OtherPriority, subject: str) -> Reason:
    own = f"its class {refusal.priority_class} gives" if refusal.priority_class else "without a class it is"
    return Reason(
        Code.PRIORITY_NOT_OF_CLASS,
        Layer.ADMISSION,
        subject,
        f"spec.{refusal.field} says {refusal.given}, and {own} {refusal.computed}",
        {"field": refusal.field, "given": refusal.given, "computed": refusal.computed},
        f"leave {refusal.field} out, and name a PriorityClass that gives what is wanted",
        "API server, Priority admission",
    )


def _not_there(refusal: NotThere, subject: str) -> Reason:
    what, where = _NAMES[refusal.kind], f" in {refusal.namespace}" if refusal.namespace else ""
    others = [name for name in refusal.others if not name.startswith("system-")]
    there = f"; there are {listed(others)}" if others else ""
    return Reason(
        _NOT_THERE[refusal.kind],
        Layer.ADMISSION,
        subject,
        f"the {what} {refusal.name} does not exist{where}{there}",
        {"kind": refusal.kind, "name": refusal.name, "others": [*refusal.others]},
        f"create the {what}, or name one that exists",
        f"API server, {refusal.kind.removesuffix('Class')} admission",
    )


def _out_of_range(refusal: OutOfRange) -> Reason:
    found = list(dict.fromkeys(f"{b.text} ({b.where})" for b in refusal.breaches))
    return Reason(
        Code.LIMIT_RANGE,
        Layer.ADMISSION,
        f"LimitRange {refusal.namespace}/{refusal.name}",
        f"the limit range {refusal.name} of {refusal.namespace} does not allow it: {'; '.join(found)}",
        {
            "range": refusal.name,
            "breaches": [
                {"resource": b.resource, "bound": b.bound, "allowed": b.allowed, "where": b.where}
                for b in refusal.breaches
            ],
        },
        f"stay within it, or have it changed: kubectl edit limitrange {refusal.name} -n {refusal.namespace}",
        "API server, LimitRanger admission",
    )


def _insecure(refusal: Insecure, subject: str, namespace: str) -> Reason:
    told = "; ".join(f"{what}: {detail}" if detail else what for what, detail in refusal.violations)
    return Reason(
        Code.POD_SECURITY,
        Layer.ADMISSION,
        subject,
        f"the namespace {namespace} enforces pod security {refusal.policy}, and the pod violates it: {told}",
        {"policy": refusal.policy, "violations": [what for what, _ in refusal.violations]},
        f"set what is named in the pod, or relax the label {ENFORCE} of the namespace",
        "API server, PodSecurity admission",
    )


def _unreachable(refusal: Unreachable) -> Reason:
    webhook = refusal.webhook
    service = "/".join(webhook.service or ())
    why = "does not exist" if refusal.service_missing else "has no running pod behind it"
    kind = f"{'mutating' if webhook.mutating else 'validating'}webhookconfiguration"
    return Reason(
        Code.WEBHOOK_UNREACHABLE,
        Layer.ADMISSION,
        f"Webhook {webhook.configuration}/{webhook.name}",
        f"new pods must be shown to the webhook {webhook.name}, and its Service {service} {why}",
        {"webhook": webhook.name, "configuration": webhook.configuration, "service": service},
        f"start what is behind {service}; or, if it is gone for good, kubectl delete {kind} "
        f"{webhook.configuration}; or set its failurePolicy to Ignore",
        "webhook configurations, Services, Pods",
        lasting=False,
    )
