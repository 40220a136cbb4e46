"""The explanation of a manifest that the API server would refuse, in its words and in ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tonnage.decide.kubernetes.view import ClusterView
from tonnage.diagnose.case import ManifestFieldError, device_needs
from tonnage.diagnose.remedies.corrected_amounts import amended
from tonnage.model.kubernetes.cluster import Manifest
from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.admission import FieldAmountReason, ResourceNotInteger, Unreadable
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Explanation, Remedy, Subject, Verdict


def explain_refused(
    manifest: Manifest,
    subject: Subject,
    errors: list[ManifestFieldError],
    view: ClusterView,
    later: Callable[[Manifest], Explanation] | None,
    *,
    words: str = "",
) -> Explanation:
    """The refusal as the API server writes it, every error at once, with what the cluster offers instead.

    `later` tells what becomes of the manifest once it is changed; without it nothing is tried. `words`: the
    server's whole message, where it is known.
    """
    # Errors stay in the API server's order: its message lists them so, and the first one is our headline.
    texts = list(dict.fromkeys(f"{error.path}: {error.text}" for error in errors))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    reasons: dict[tuple[str, str, str], Reason] = {}
    for error in errors:
        reasons.setdefault(
            (
                error.reason.code,
                error.reason.subject,
                error.reason.resource
                if isinstance(error.reason, FieldAmountReason)
                else error.reason.message,
            ),
            error.reason,
        )
    complete = all(error.text for error in errors)
    first = errors[0].reason
    kinds = {type(reason) for reason in reasons.values()}
    return Explanation(
        subject=subject,
        verdict=Verdict.NEVER,
        layer=Layer.ADMISSION,
        phase="",
        needs={} if ResourceNotInteger in kinds else device_needs(manifest.pod),
        message=f"the API server refuses it: {first.message}",
        upstream_message=words
        or (f'{manifest.kind} "{manifest.name}" is invalid: {listed}' if complete else ""),
        reasons=tuple(reasons.values()),
        remedies=_remedies(reasons.values(), manifest, view, later),
    )


def explain_unreadable(manifest: Manifest, subject: Subject) -> Explanation:
    """A manifest with a quantity that is none: the API server cannot even decode it."""
    problem = manifest.pod.problems[0]
    kind = subject.kind
    reason = Unreadable(
        subject=str(subject),
        message=f"{problem.where}: {problem.what}",
        remedy="write a number, with a suffix such as m, k, Mi or Gi where it needs one",
        source="Kubernetes quantity",
        field=problem.where,
    )
    return Explanation(
        subject=subject,
        verdict=Verdict.NEVER,
        layer=Layer.ADMISSION,
        phase="",
        needs={},
        message=f"the API server refuses it: {reason.message}",
        upstream_message=f'{kind} in version "v1" cannot be handled as a {kind}: {problem.remedy}',
        reasons=(reason,),
        remedies=(Remedy(reason.remedy, "the API server can read it"),),
    )


def _remedies(
    reasons: Iterable[Reason],
    manifest: Manifest,
    view: ClusterView,
    later: Callable[[Manifest], Explanation] | None,
) -> tuple[Remedy, ...]:
    """One remedy for each thing to do, however many fields it is for; tried where it is certain."""
    alike: dict[str, list[Reason]] = {}
    for reason in reasons:
        alike.setdefault(reason.remedy, []).append(reason)
    remedies = []
    for action, alike_reasons in alike.items():
        amendment = amended(manifest, alike_reasons) if later else None
        if later is None or amendment is None:
            present = dict.fromkeys(_what_is_there(view, reason) for reason in alike_reasons)
            remedies.append(Remedy(action, "; ".join(present)))
        else:
            remedies.append(Remedy(action, _effect(later(amendment[0])), amendment[1]))
    return tuple(remedies)


def _effect(after: Explanation) -> str:
    if after.verdict is Verdict.FITS:
        return f"the API server accepts it; {after.message}"
    if after.layer in (Layer.ADMISSION, Layer.QUOTA):
        return f"resolves this; then: {after.message}"
    return f"the API server accepts it; {after.verdict}: {after.message}"


def _what_is_there(view: ClusterView, reason: Reason) -> str:
    """What the cluster offers instead, so that the advice can be followed on it."""
    if not isinstance(reason, ResourceNotInteger):
        return "the API server accepts it"
    vendor = reason.resource.split("/")[0]
    names = {
        name
        for node in view.nodes.values()
        for name, amount in node.node.allocatable.items()
        if amount > 0 and name.startswith(f"{vendor}/")
    }
    offers = f"this cluster advertises {', '.join(sorted(names))}" if names else ""
    return offers or f"this cluster advertises no {vendor} now"
