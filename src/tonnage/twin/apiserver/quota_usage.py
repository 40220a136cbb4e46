"""What objects use of ResourceQuotas.

Source: k8s.io/kubernetes/pkg/quota/v1 (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final

import msgspec

from tonnage.adapters.reading import snapshot_from
from tonnage.decide.cluster.admission.charges import (
    charged_to_claims,
    charged_to_pods,
    claim_charges,
    pod_charges,
)
from tonnage.decide.cluster.admission.object_charges import UNCOUNTED, Resource, counted_by, object_charges
from tonnage.decide.cluster.admission.scopes import counts
from tonnage.model.json import JsonObject
from tonnage.model.quantity import parse_quantity, write_quantity
from tonnage.wire.claims import ResourceClaim
from tonnage.wire.objects import Pod, ResourceQuota

DEVICE_CLAIM: Final[Resource] = ("resource.k8s.io", "resourceclaims")


def counted(
    quota: ResourceQuota,
    pods: Iterable[Pod],
    objects: Mapping[Resource, Iterable[JsonObject] | None] = MappingProxyType({}),
) -> dict[str, dict[str, str]]:
    """The status of a quota: its limits, and what these pods and objects use of them.

    A kind whose objects are None is not known yet, and its keys are not told.
    """
    hard = hard_of(quota)
    found = snapshot_from([quota, *pods])
    [limits] = found.quotas
    charges: list[Mapping[str, Fraction]] = [pod_charges(pod) for pod in found.pods if counts(limits, pod)]
    for resource, there in objects.items():
        if not limits.scopes:
            charges += [charges_of(resource, one) for one in there or ()]
    used = {
        key: write_quantity(
            sum((charge.get(key, Fraction(0)) for charge in charges), Fraction(0)),
            "binary" if amount.endswith("i") else "decimal",
        )
        for key, amount in hard.items()
        if charged_to_pods(key) or objects.get(counted_here(key) or ("", "")) is not None
    }
    return {"hard": hard, "used": used}


def hard_of(quota: ResourceQuota) -> dict[str, str]:
    """What the spec bounds."""
    return {key: str(amount) for key, amount in quota.spec.get("hard", {}).items()}


def counted_here(key: str) -> Resource | None:
    """The kind that a key counts, but for pods, which are counted otherwise."""
    if charged_to_claims(key):
        return DEVICE_CLAIM
    resource = counted_by(key)
    return None if charged_to_pods(key) or resource in UNCOUNTED else resource


def charges_of(resource: Resource, one: JsonObject) -> Mapping[str, Fraction]:
    """What an object that is no pod costs, by key."""
    if resource != DEVICE_CLAIM:
        return object_charges(resource, one)
    [claim] = snapshot_from([msgspec.convert(one, ResourceClaim)]).claims
    return claim_charges(claim)


def at_least(known: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """What is used at least, by what was said of it and by what was counted: whatever is more.

    >>> at_least({"pods": "2", "cpu": "100m"}, {"pods": "1", "cpu": "1"})
    {'pods': '2', 'cpu': '1'}
    """
    return {key: _larger(known.get(key), amount) for key, amount in found.items()}


def _larger(known: str | None, found: str) -> str:
    try:
        return known if known is not None and parse_quantity(known) >= parse_quantity(found) else found
    except ValueError:
        return found


def added(
    hard: Mapping[str, str], used: Mapping[str, str], charges: Mapping[str, Fraction]
) -> dict[str, str]:
    """What is used once charges are added, written as the bounds are."""
    return {
        key: amount
        if not charges.get(key)
        else write_quantity(
            parse_quantity(amount) + charges[key], "binary" if hard[key].endswith("i") else "decimal"
        )
        for key, amount in used.items()
    }
