"""ResourceQuota: what the quotas of a namespace say to a new pod, and to the claims made for it.

Source: k8s.io/apiserver pkg/admission/plugin/resourcequota/controller.go (CheckRequest), 1.35.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Final

from tonnage.decide.kubernetes.admission.charges import (
    Charges,
    charged_to_claims,
    charged_to_pods,
    claim_charges,
    pod_charges,
)
from tonnage.decide.kubernetes.admission.quota_refusals import amount_of, exceeded, uncounted, undeclared
from tonnage.decide.kubernetes.admission.refusal import AdmissionRefusal
from tonnage.decide.kubernetes.admission.scopes import counts
from tonnage.model.kubernetes.cluster import Container, Pod, Snapshot
from tonnage.model.kubernetes.policies import Quota
from tonnage.model.kubernetes.quantity import canonical_quantity, write_quantity
from tonnage.model.kubernetes.resource_claims import ResourceClaim
from tonnage.model.reasons.facts import QuotaRow

_DECLARED: Final = ("cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory")
"""Keys that make every container declare the amount."""

Formats = Mapping[str, str]
"""How amounts are written, by `requests.` or `limits.` and the name."""


def pod_refusals(
    pod: Pod, snapshot: Snapshot, formats: Formats | None = None, before: Pod | None = None
) -> tuple[AdmissionRefusal, ...]:
    """What each quota says against a new pod, or one that asks for more than `before`.

    First come those that cannot even count it, as on the server.
    """
    own = sorted((q for q in snapshot.quotas if q.namespace == pod.namespace), key=lambda q: q.name)
    tracked = [(q, _tracked(q, charged_to_pods)) for q in own if counts(q, pod)]
    matching = [(quota, keys) for quota, keys in tracked if keys]
    early = [refusal for quota, keys in matching if (refusal := _undeclared(pod, quota, keys))]
    early += [refusal for quota, keys in matching if (refusal := _uncounted(quota, keys))]
    over: list[AdmissionRefusal] = []
    for quota, keys in matching:
        charges = pod_change(quota, pod, before)
        refusal = _exceeded(quota, keys, charges, partial(_pod_users, quota, snapshot), formats or {})
        if refusal is not None:
            over.append(refusal)
    return (*early, *over)


def pod_change(quota: Quota, pod: Pod, before: Pod | None) -> Charges:
    """What a pod costs of a quota that counts it, more than it did where that counted it before."""
    charged = pod_charges(before) if before is not None and counts(quota, before) else {}
    return more(pod_charges(pod), charged)


def more(charges: Charges, before: Charges) -> Charges:
    """By how much charges have grown, at least nothing.

    >>> more({"pods": Fraction(2)}, {"pods": Fraction(3)})
    {'pods': Fraction(0, 1)}
    """
    return {key: max(amount - before.get(key, Fraction(0)), Fraction(0)) for key, amount in charges.items()}


def claim_refusals(claim: ResourceClaim, snapshot: Snapshot, *, minor: int) -> tuple[AdmissionRefusal, ...]:
    """What each quota says against a claim that has yet to be made. Quotas with scopes count no claims."""
    charges = claim_charges(claim, snapshot.device_classes, minor=minor)
    refusals = []
    for quota in sorted(snapshot.quotas, key=lambda q: q.name):
        keys = [key for key in quota.hard if charged_to_claims(key) or key in charges]
        if quota.namespace != claim.namespace or quota.scopes or not keys:
            continue
        over = _exceeded(quota, sorted(keys), charges, partial(_claim_users, quota, snapshot, minor), {})
        if over is not None:
            refusals.append(over)
    return tuple(refusals)


def object_refusal(quota: Quota, charges: Charges, formats: Formats | None = None) -> AdmissionRefusal | None:
    """What a quota says that counts this much of an object, neither pod nor claim for devices."""
    return _exceeded(quota, sorted(charges.keys() & quota.hard.keys()), charges, list, formats or {})


def _tracked(quota: Quota, counted: Callable[[str], bool]) -> list[str]:
    return sorted(key for key in quota.hard if counted(key))


def _undeclared(pod: Pod, quota: Quota, keys: Iterable[str]) -> AdmissionRefusal | None:
    if pod.pod_requests or pod.pod_limits:
        return None
    containers = (*pod.containers, *pod.init_containers)
    missing = tuple(
        (key, names)
        for key in keys
        if key in _DECLARED
        and (names := tuple(sorted({c.name for c in containers if not _declares(c, key)})))
    )
    return undeclared(quota, missing) if missing else None


def _declares(container: Container, key: str) -> bool:
    section, _, resource = key.rpartition(".")
    return resource in (container.limits if section == "limits" else container.requests)


def _uncounted(quota: Quota, keys: Iterable[str]) -> AdmissionRefusal | None:
    missing = tuple(key for key in keys if key not in quota.used) if quota.counted else ()
    return uncounted(quota, missing) if missing else None


Users = list[tuple[str, Charges]]


def _exceeded(
    quota: Quota, keys: Iterable[str], charges: Charges, users: Callable[[], Users], formats: Formats
) -> AdmissionRefusal | None:
    """`users` are counted only where the controller has not, or where the quota refuses."""
    counted = None if quota.counted else users()
    rows: list[QuotaRow] = []
    beyond = False
    for key in keys:
        requested, hard = charges.get(key, Fraction(0)), amount_of(quota.hard[key])
        if counted is None:
            used = amount_of(quota.used.get(key, "0"))
        else:
            used = sum((spent.get(key, Fraction(0)) for _, spent in counted), Fraction(0))
        if requested > 0 and hard is not None and used is not None and requested + used > hard:
            form = form_of(key, formats)
            used_text = (
                canonical_quantity(quota.used[key]) if key in quota.used else write_quantity(used, form)
            )
            most = canonical_quantity(quota.hard[key])
            rows.append(QuotaRow(key, write_quantity(requested, form), used_text, most))
            beyond = beyond or requested > hard
    if not rows:
        return None
    first = rows[0].key
    shares = [(name, spent[first]) for name, spent in counted or users() if spent.get(first)]
    shares.sort(key=lambda share: (-share[1], share[0]))
    form = form_of(first, formats)
    return exceeded(quota, rows, [(name, write_quantity(n, form)) for name, n in shares], beyond=beyond)


def _pod_users(quota: Quota, snapshot: Snapshot) -> Users:
    pods = (p for p in snapshot.pods if p.namespace == quota.namespace and counts(quota, p))
    return [(pod.name, pod_charges(pod)) for pod in pods]


def _claim_users(quota: Quota, snapshot: Snapshot, minor: int) -> Users:
    """Claims that are there; those that would be made for the pod itself have no uid yet."""
    claims: Iterator[ResourceClaim] = (
        claim for claim in snapshot.claims if claim.namespace == quota.namespace and claim.uid
    )
    return [(c.name, claim_charges(c, snapshot.device_classes, minor=minor)) for c in claims]


def form_of(key: str, formats: Formats) -> str:
    """How the amount of a key is written; `cpu` is about requests.

    >>> form_of("memory", {"requests.memory": "binary"})
    'binary'
    """
    side = key if key.startswith(("requests.", "limits.")) else f"requests.{key}"
    return formats.get(side, "decimal")
