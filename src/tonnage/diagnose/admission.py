"""The explanation of a manifest that the API server would refuse, in its words and in ours."""

from __future__ import annotations

from tonnage.decide.cluster.view import View
from tonnage.diagnose.case import FieldError, device_needs
from tonnage.model.cluster import Manifest
from tonnage.model.verdict import Code, Explanation, Layer, Reason, Remedy, Subject, Verdict


def explain_refused(
    manifest: Manifest, subject: Subject, errors: list[FieldError], view: View
) -> Explanation:
    """The refusal as the API server writes it, every error at once, with what the cluster offers instead."""
    texts = list(dict.fromkeys(f"{error.path}: {error.text}" for error in errors))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    reasons: dict[tuple[Code, str, str], Reason] = {}
    for error in errors:
        reasons.setdefault(
            (error.reason.code, error.reason.subject, str(error.reason.facts["resource"])), error.reason
        )
    first = errors[0].reason
    return Explanation(
        subject=subject,
        verdict=Verdict.NEVER,
        layer=Layer.ADMISSION,
        phase="",
        needs=device_needs(manifest.pod),
        message=f"the API server refuses it: {first.message}",
        upstream_message=f'{manifest.kind} "{manifest.name}" is invalid: {listed}',
        reasons=tuple(reasons.values()),
        remedies=tuple(Remedy(reason.remedy, _what_is_there(view, reason)) for reason in reasons.values()),
    )


def explain_over_quota(manifest: Manifest, subject: Subject, quotas: list[tuple[Reason, str]]) -> Explanation:
    """A pod that a quota refuses. A workload is accepted; it is its pods that never come to exist."""
    reasons = tuple(reason for reason, _ in quotas)
    lasting = any(reason.lasting for reason in reasons)
    return Explanation(
        subject=subject,
        verdict=Verdict.NEVER if lasting else Verdict.NOT_NOW,
        layer=Layer.QUOTA,
        phase="",
        needs=device_needs(manifest.pod),
        message="; ".join(reason.message for reason in reasons),
        upstream_message=f'pods "{manifest.pod.name}" is forbidden: {quotas[0][1]}',
        reasons=reasons,
        remedies=tuple(Remedy(reason.remedy, "the API server lets the pod exist") for reason in reasons),
    )


def _what_is_there(view: View, reason: Reason) -> str:
    """What the cluster offers instead, so that the advice can be followed on it."""
    if reason.code is not Code.NOT_AN_INTEGER:
        return "the API server accepts it"
    vendor = str(reason.facts["resource"]).split("/")[0]
    names = {
        name
        for node in view.nodes.values()
        for name, amount in node.node.allocatable.items()
        if amount > 0 and name.startswith(f"{vendor}/")
    }
    offers = f"this cluster advertises {', '.join(sorted(names))}" if names else ""
    return offers or f"this cluster advertises nothing of {vendor} now"
