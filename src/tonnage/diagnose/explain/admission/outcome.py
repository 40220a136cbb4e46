"""What the API server makes of a manifest: what it refuses, what would help, and what it lets in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.kubernetes.admission.chain import Admission, admission_of
from tonnage.decide.kubernetes.admission.refusal import AdmissionRefusal
from tonnage.decide.kubernetes.admission.webhooks import matching_webhooks
from tonnage.diagnose.case import device_needs
from tonnage.diagnose.remedies.fixes import Fix, fixes_for
from tonnage.model.kubernetes.cluster import Manifest, Snapshot
from tonnage.model.layer import Layer
from tonnage.model.names import is_namespace
from tonnage.model.reasons.pod.admission import (
    ApiNotServed,
    LimitRangeViolation,
    NameMissing,
    NamespaceMissing,
    NamespaceTerminating,
    PriorityNotOfClass,
    RuntimeClassConflict,
    WebhookMayRefuse,
    WebhookUnreachable,
)
from tonnage.model.reasons.pod.quota import QuotaExceededByClaim, QuotaReason, QuotaRowsReason
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Explanation, Remedy, Subject, Verdict

_CLAIMS_SERVED: Final = {"v1": 34, "v1beta2": 33, "v1beta1": 32}
"""The first minor release that serves a version of resource.k8s.io."""
_CLAIMS: Final = "resource.k8s.io/"
_MOST_FIXES: Final = 12
_MOST_NAMED: Final = 6
NOT_ENOUGH: Final = "not enough by itself"
"""How the effect of a remedy begins after which no node takes the pod all the same."""

Later = Callable[[Manifest, Snapshot], Explanation]
"""Explains a manifest once more: changed, or in a changed cluster."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A manifest that somebody tries to create in a cluster of a minor release."""

    manifest: Manifest
    snapshot: Snapshot
    minor: int

    @property
    def admission(self) -> Admission:
        """What the server would do."""
        return admission_of(self.manifest, self.snapshot, minor=self.minor)


def explain_forbidden(attempt: Attempt, subject: Subject, admission: Admission, later: Later) -> Explanation:
    """A pod that is forbidden. A workload is accepted; it is its pods that never come to exist."""
    manifest = attempt.manifest
    reasons = tuple(refusal.reason for refusal in admission.refusals)
    first = reasons[0]
    opening = "the API server refuses its pods" if manifest.pod.owner else "the API server refuses it"
    return Explanation(
        subject=subject,
        verdict=Verdict.NEVER if any(reason.lasting for reason in reasons) else Verdict.NOT_NOW,
        layer=first.layer,
        phase="",
        needs=device_needs(manifest.pod),
        message=f"{opening}: {'; '.join(reason.message for reason in reasons)}",
        upstream_message=_words(admission.refusals[0], manifest, early=bool(admission.early)),
        reasons=reasons,
        remedies=tuple(_remedies(attempt, admission.refusals, later)) or _advice(reasons),
    )


def _words(refusal: AdmissionRefusal, manifest: Manifest, *, early: bool) -> str:
    """The server's answer. A webhook that cannot be asked is an error of its own, not the pod's fault."""
    if isinstance(refusal.reason, WebhookUnreachable):
        return f"Internal error occurred: {refusal.text}"
    return f'pods "{shown_name(manifest, early=early)}" is forbidden: {refusal.text}'


def shown_name(manifest: Manifest, *, early: bool) -> str:
    """How a refusal names the pod: a name that is not made yet is a prefix, later it has a random end (…)."""
    kind = manifest.kind.split(".")[0]
    match kind:
        case "Pod":
            prefix = str(_generate_name(manifest))
            return manifest.name if not prefix else f"{prefix}{'' if early else '…'}"
        case "StatefulSet":
            return f"{manifest.name}-0"
        case "Deployment" | "CronJob":
            return f"{manifest.name}-…"
        case _:
            return f"{manifest.name}-{'' if early else '…'}"


def _generate_name(manifest: Manifest) -> str:
    metadata = manifest.written.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    return "" if named.get("name") else str(named.get("generateName") or "")


def explain_unserved(attempt: Attempt, subject: Subject) -> Explanation | None:
    """An object in the file of a version that the server does not have, as kubectl says it."""
    for version, kind in attempt.manifest.beside:
        since = _CLAIMS_SERVED.get(version.removeprefix(_CLAIMS)) if version.startswith(_CLAIMS) else None
        if since is None or attempt.minor >= since:
            continue
        older = [name for name, minor in _CLAIMS_SERVED.items() if minor <= attempt.minor]
        remedy = f"write apiVersion: {_CLAIMS}{older[0]}, and switch that version on" if older else ""
        reason = ApiNotServed(
            subject=kind,
            message=f"Kubernetes 1.{attempt.minor} has no {version}: {kind} came to it with 1.{since}",
            remedy=remedy or "ask for devices by resource name (nvidia.com/gpu), or upgrade the cluster",
            source="Kubernetes release notes",
            version=version,
            kind=kind,
            since=f"1.{since}",
        )
        return Explanation(
            subject=subject,
            verdict=Verdict.NEVER,
            layer=Layer.ADMISSION,
            phase="",
            needs=device_needs(attempt.manifest.pod),
            message=reason.message,
            upstream_message=f'no matches for kind "{kind}" in version "{version}"',
            reasons=(reason,),
            remedies=(Remedy(reason.remedy, "the API server knows the kind"),),
        )
    return None


def explain_no_namespace(attempt: Attempt, subject: Subject, later: Later) -> Explanation | None:
    """A namespace that does not exist, where every namespace is known."""
    snapshot, namespace = attempt.snapshot, attempt.manifest.pod.namespace
    if "Namespace" not in snapshot.complete or namespace in snapshot.namespaces:
        return None
    effect = ""
    if is_namespace(namespace):
        then = later(attempt.manifest, replace(snapshot, namespaces={**snapshot.namespaces, namespace: {}}))
        effect = (
            f"then: {then.message if then.verdict is Verdict.FITS else f'{then.verdict}: {then.message}'}"
        )
        remedy = f"kubectl create namespace {namespace}"
    else:
        remedy = "correct the namespace: its name has lower-case letters, digits and -, 63 characters at most"
    reason = NamespaceMissing(
        subject=str(subject),
        message=f"the namespace {namespace} does not exist",
        remedy=remedy,
        source="API server, NamespaceLifecycle admission",
        namespace=namespace,
    )
    return Explanation(
        subject=subject,
        verdict=Verdict.NEVER,
        layer=Layer.ADMISSION,
        phase="",
        needs=device_needs(attempt.manifest.pod),
        message=f"the API server refuses it: {reason.message}",
        upstream_message=f'namespaces "{namespace}" not found',
        reasons=(reason,),
        remedies=(Remedy(reason.remedy, effect),),
    )


def webhook_notes(manifest: Manifest, snapshot: Snapshot) -> tuple[Reason, ...]:
    """Webhooks that will see the pod: what they say cannot be known."""
    webhooks = list(matching_webhooks(manifest.pod, snapshot))
    if not webhooks:
        return ()
    names = [
        f"{'the policy ' if webhook.policy else ''}{webhook.name}"
        f"{' (under conditions)' if webhook.conditional else ''}"
        for webhook in webhooks
    ]
    shown = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
    message = (
        f"the API server will also ask {shown}, which may change or refuse it; Tonnage does not predict that"
    )
    webhook_note = WebhookMayRefuse(
        subject="Webhooks",
        message=message,
        remedy="kubectl apply --dry-run=server -f FILE asks them and creates nothing",
        source="webhook configurations",
        webhooks=tuple(webhook.name for webhook in webhooks),
    )
    return (webhook_note,)


def _remedies(attempt: Attempt, refusals: tuple[AdmissionRefusal, ...], later: Later) -> Iterator[Remedy]:
    """Fixes after which the refusal is gone, with what comes then; last those that are not enough."""
    offered: set[str] = set()
    weak: list[Remedy] = []
    for refusal in refusals:
        for fix in list(fixes_for(refusal.reason, attempt.manifest, attempt.snapshot))[:_MOST_FIXES]:
            effect = _effect(fix, refusal.reason, attempt, later)
            if effect and fix.action not in offered:
                offered.add(fix.action)
                own = fix.manifest is not attempt.manifest
                remedy = Remedy(fix.action, effect, fix.patch, fix.manifest.pod if own else fix.snapshot)
                if effect.startswith(NOT_ENOUGH):
                    weak.append(remedy)
                else:
                    yield remedy
    yield from weak


def _effect(fix: Fix, reason: Reason, attempt: Attempt, later: Later) -> str:
    """What comes of a fix; empty when the refusal stays."""
    against = Attempt(fix.manifest, fix.snapshot, attempt.minor).admission.refusals
    if any(_key(refusal.reason) == _key(reason) for refusal in against):
        return ""
    if against:
        return f"resolves this; then: {against[0].reason.message}"
    outcome = later(fix.manifest, fix.snapshot)
    if outcome.verdict is Verdict.NEVER:
        return f"{NOT_ENOUGH}: the API server accepts the pod; {outcome.verdict}: {outcome.message}"
    fits = outcome.message if outcome.verdict is Verdict.FITS else f"{outcome.verdict}: {outcome.message}"
    return f"the API server accepts the pod; {fits}"


def _key(reason: Reason) -> tuple[str, str]:
    """What reasons have alike that are by the same rule for the same object."""
    match reason:
        case NameMissing(kind=kind, name=name):
            return kind, name
        case QuotaRowsReason(quota=name):
            return "quota exceeded", name
        case (
            LimitRangeViolation(range=name)
            | RuntimeClassConflict(class_=name)
            | NamespaceTerminating(namespace=name)
            | PriorityNotOfClass(field=name)
            | QuotaReason(quota=name)
        ):
            return reason.code, str(name)
        case WebhookUnreachable():
            return reason.code, reason.subject
    return reason.code, ""


def _advice(reasons: tuple[Reason, ...]) -> tuple[Remedy, ...]:
    """Where nothing can be tried, what the reasons themselves advise."""
    return tuple(Remedy(action, "") for action in dict.fromkeys(r.remedy for r in reasons) if action)


def claim_quota_remedies(
    attempt: Attempt, reasons: tuple[QuotaExceededByClaim, ...], later: Later
) -> tuple[Remedy, ...]:
    """What lets the claims be made that a quota refuses, with what comes then."""
    remedies: dict[str, Remedy] = {}
    for reason in reasons:
        for fix in list(fixes_for(reason, attempt.manifest, attempt.snapshot))[:_MOST_FIXES]:
            against = Attempt(fix.manifest, fix.snapshot, attempt.minor).admission.claims
            if any((other.quota, other.claim) == (reason.quota, reason.claim) for other in against):
                continue
            outcome = later(fix.manifest, fix.snapshot)
            then = (
                outcome.message
                if outcome.verdict is Verdict.FITS
                else f"{outcome.verdict}: {outcome.message}"
            )
            remedies.setdefault(
                fix.action, Remedy(fix.action, f"the claim {reason.claim} is made; {then}", {}, fix.snapshot)
            )
    return tuple(remedies.values())


def with_claim_limits(
    explanation: Explanation, reasons: tuple[Reason, ...], remedies: tuple[Remedy, ...] = ()
) -> Explanation:
    """A pod that is let in but whose claims are not: it waits for them, whatever the nodes say."""
    if not reasons:
        return explanation
    lasting = any(reason.lasting for reason in reasons)
    return replace(
        explanation,
        verdict=Verdict.NEVER if lasting else Verdict.NOT_NOW,
        layer=Layer.QUOTA,
        message="; ".join(reason.message for reason in reasons),
        reasons=(*reasons, *explanation.reasons),
        remedies=remedies or _advice(reasons),
    )
