"""ADM-10: what a namespace's ResourceQuotas would say to a new pod.

Source: k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go and the ResourceQuota admission plugin, 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from tonnage.decide.cluster.requests import is_extended, pod_requests
from tonnage.decide.cluster.view import View
from tonnage.model.cluster import Container, Pod, Quota
from tonnage.model.quantity import canonical_quantity, parse_quantity
from tonnage.model.verdict import Code, Layer, Reason

_DECLARED: Final = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
"""Keys that make every container declare the amount."""
_SOURCE: Final = "ResourceQuota admission"
_MOST_USERS: Final = 8


def quota_reasons(pod: Pod, view: View) -> Iterator[tuple[Reason, str]]:
    """Every quota that would refuse the pod: the reason, and the API server's words for it."""
    for quota in view.snapshot.quotas:
        if quota.namespace == pod.namespace and not quota.scoped:
            found = _undeclared(pod, quota) or _exceeded(pod, quota, view)
            if found is not None:
                yield found


def scoped_quotas(pod: Pod, view: View) -> tuple[str, ...]:
    """Quotas of the namespace that count only some pods: whether this one is not decided here."""
    return tuple(q.name for q in view.snapshot.quotas if q.namespace == pod.namespace and q.scoped)


def _undeclared(pod: Pod, quota: Quota) -> tuple[Reason, str] | None:
    missing = {
        key: [c.name for c in (*pod.containers, *pod.init_containers) if not _declares(c, key)]
        for key in _DECLARED
        if key in quota.hard and not pod.pod_requests
    }
    told = "; ".join(
        f"{key} for: {','.join(sorted(names))}" for key, names in sorted(missing.items()) if names
    )
    if not told:
        return None
    reason = Reason(
        Code.QUOTA_UNDECLARED,
        Layer.QUOTA,
        f"ResourceQuota {quota.namespace}/{quota.name}",
        f"the quota {quota.name} wants declared: {told}",
        {"quota": quota.name},
        "declare it in every container, or give the namespace a LimitRange with defaults",
        _SOURCE,
    )
    return reason, f"failed quota: {quota.name}: must specify {told}"


def _declares(container: Container, key: str) -> bool:
    section, _, resource = key.rpartition(".")
    return resource in (container.limits if section == "limits" else container.requests)


def _exceeded(pod: Pod, quota: Quota, view: View) -> tuple[Reason, str] | None:
    over: dict[str, tuple[Fraction, Fraction, Fraction]] = {}
    for key in sorted(quota.hard):
        asked = _asked(pod, key)
        used, hard = _amount(quota.used.get(key, "0")), _amount(quota.hard[key])
        if asked and used is not None and hard is not None and asked + used > hard:
            over[key] = asked, used, hard
    if not over:
        return None
    asked_text, used_text, hard_text = (
        ",".join(f"{key}={_text(row[i], quota.hard[key])}" for key, row in over.items()) for i in range(3)
    )
    users = _users(quota.namespace, next(iter(over)), view)
    reason = Reason(
        Code.QUOTA_EXCEEDED,
        Layer.QUOTA,
        f"ResourceQuota {quota.namespace}/{quota.name}",
        f"the quota {quota.name} allows {hard_text}, used is {used_text}, asked {asked_text}"
        + (f"; used by {', '.join(users)}" if users else ""),
        {"quota": quota.name, "keys": [*over], "users": [*users]},
        "free some of it, or raise the quota",
        _SOURCE,
        lasting=any(asked > hard for asked, _, hard in over.values()),
    )
    text = f"exceeded quota: {quota.name}, requested: {asked_text}, used: {used_text}, limited: {hard_text}"
    return reason, text


def _asked(pod: Pod, key: str) -> Fraction:
    """What a pod charges to a key. `limits.` of devices, and bare device names, are never charged."""
    if key in ("pods", "count/pods"):
        return Fraction(1)
    section, _, resource = key.partition(".") if key.startswith(("requests.", "limits.")) else ("", "", key)
    if is_extended(resource):
        return Fraction(pod_requests(pod).get(resource, 0)) if section == "requests" else Fraction(0)
    if resource not in ("cpu", "memory", "ephemeral-storage"):
        return Fraction(0)
    if section == "limits":
        total = sum(c.limits.get(resource, 0) for c in pod.containers)
    else:
        total = pod_requests(pod).get(resource, 0)
    return Fraction(total, 1000) if resource == "cpu" else Fraction(total)


def _users(namespace: str, key: str, view: View) -> tuple[str, ...]:
    pods = [p for p in view.snapshot.pods if p.namespace == namespace and not p.finished and _asked(p, key)]
    names = sorted(pod.name for pod in pods)
    return (*names[:_MOST_USERS], *(["…"] if len(names) > _MOST_USERS else []))


def _amount(text: str) -> Fraction | None:
    try:
        return parse_quantity(text)
    except ValueError:
        return None


def _text(amount: Fraction, like: str) -> str:
    """An amount in the spelling of the quota's own quantity."""
    if amount.denominator != 1:
        return canonical_quantity(f"{int(amount * 1000)}m")
    if like.endswith("i") and amount.numerator % 1024 == 0:
        return canonical_quantity(f"{amount.numerator // 1024}Ki")
    return canonical_quantity(str(amount.numerator))
