"""Refusals by ResourceQuota: what a quota allows, what is used and by whom, what is asked for.

Source: k8s.io/apiserver pkg/admission/plugin/resourcequota/controller.go (CheckRequest), 1.35.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from tonnage.decide.kubernetes.admission.refusal import AdmissionRefusal
from tonnage.model.kubernetes.policies import Quota
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.name_lists import listed
from tonnage.model.reasons.facts import QuotaRow
from tonnage.model.reasons.pod.quota import (
    QuotaExceeded,
    QuotaExceededByClaim,
    QuotaNotCounted,
    QuotaNotTakenOver,
    QuotaRowsReason,
    QuotaUndeclared,
)

_SOURCE: Final = "ResourceQuota admission"
_MOST_USERS: Final = 8


def exceeded(
    quota: Quota, rows: Sequence[QuotaRow], users: Sequence[tuple[str, str]], *, beyond: bool
) -> AdmissionRefusal:
    """A quota that would be exceeded by the keys of `rows`.

    `users`: who has what of the first key, the largest first. `beyond`: more is asked than it allows in all.
    """
    requested, used, hard = (
        ",".join(f"{row.key}={amount}" for row, amount in zip(rows, column, strict=True))
        for column in zip(*((row.asked, row.used, row.hard) for row in rows), strict=True)
    )
    text = f"exceeded quota: {quota.name}, requested: {requested}, used: {used}, limited: {hard}"
    scopes = f" (which counts only {', '.join(scope.name for scope in quota.scopes)})" if quota.scopes else ""
    behind = quota.counted and all(fits(row, quota.spec_hard) for row in rows)
    after = (
        f"; its spec allows {', '.join(f'{row.key}={quota.spec_hard[row.key]}' for row in rows)} already, "
        "which the quota controller has yet to take over"
        if behind
        else ""
        if quota.counted
        else "; the quota controller has not counted yet: so it is once it has"
    )
    kind: type[QuotaRowsReason] = QuotaNotTakenOver if behind else QuotaExceeded
    reason = kind(
        subject=_subject(quota),
        message=f"the quota {quota.name}{scopes} allows {hard}; used: {used}; requested: {requested}"
        f"{_used_by(users)}{after}",
        remedy="wait; if it stays so, look at kube-controller-manager"
        if behind
        else "free some of it, or raise the quota",
        source=_SOURCE,
        lasting=beyond and not behind,
        quota=quota.name,
        keys=tuple(row.key for row in rows),
        users=tuple(name for name, _ in users[:_MOST_USERS]),
        rows=tuple(rows),
        holders=tuple(users),
    )
    return AdmissionRefusal(text, reason)


def exceeded_by_claim(entry: str, refusal: AdmissionRefusal) -> QuotaExceededByClaim:
    """The pod is let in, but the claim that is made for its entry is not: it then waits for its claim."""
    over = refusal.reason
    assert isinstance(over, QuotaRowsReason)
    return QuotaExceededByClaim(
        subject=over.subject,
        message=f"its claim {entry} cannot be made: {over.message}",
        remedy=over.remedy,
        source=_SOURCE,
        lasting=over.lasting,
        quota=over.quota,
        keys=over.keys,
        users=over.users,
        rows=over.rows,
        holders=over.holders,
        claim=entry,
        error=refusal.text,
    )


def undeclared(quota: Quota, missing: tuple[tuple[str, tuple[str, ...]], ...]) -> AdmissionRefusal:
    """A quota on cpu or memory that makes every container say how much: those that do not, by key."""
    words = "; ".join(f"{key} for: {','.join(names)}" for key, names in missing)
    reason = QuotaUndeclared(
        subject=_subject(quota),
        message=f"the quota {quota.name} wants declared: {words}",
        remedy="declare it in every container, or give the namespace a LimitRange with defaults",
        source=_SOURCE,
        quota=quota.name,
        keys=tuple(key for key, _ in missing),
        missing=missing,
    )
    return AdmissionRefusal(f"failed quota: {quota.name}: must specify {words}", reason)


def uncounted(quota: Quota, keys: tuple[str, ...]) -> AdmissionRefusal:
    """A quota of which the controller has not counted yet what is used."""
    reason = QuotaNotCounted(
        subject=_subject(quota),
        message=f"the quota {quota.name} is so new that the quota controller has not counted yet what "
        f"is used of {listed(keys)}",
        remedy="try again in a few seconds; if it stays, look at kube-controller-manager",
        source=_SOURCE,
        quota=quota.name,
        keys=keys,
    )
    return AdmissionRefusal(f"status unknown for quota: {quota.name}, resources: {','.join(keys)}", reason)


def fits(row: QuotaRow, hard: Mapping[str, str]) -> bool:
    """Whether what is asked beside what is used is within the spec; a key that is gone limits nothing."""
    most = amount_of(hard[row.key]) if row.key in hard else None
    return bool(hard) and (most is None or parse_quantity(row.asked) + parse_quantity(row.used) <= most)


def amount_of(text: str) -> Fraction | None:
    """A quantity; None for a text that is none."""
    try:
        return parse_quantity(text)
    except ValueError:
        return None


def _subject(quota: Quota) -> str:
    return f"ResourceQuota {quota.namespace}/{quota.name}"


def _used_by(users: Sequence[tuple[str, str]]) -> str:
    """The largest users, with what they have where it is more than one."""
    named = [name if amount == "1" else f"{name} ({amount})" for name, amount in users[:_MOST_USERS]]
    more = [f"{len(users) - _MOST_USERS} more"] if len(users) > _MOST_USERS else []
    return f"; used by {', '.join([*named, *more])}" if named else ""
