"""quota.Evaluator: what objects use of quotas, for admission and for the quota controller.

Source: k8s.io/kubernetes/pkg/quota/v1 (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from tonnage.decide.kubernetes.admission.charges import (
    Charges,
    charged_to_claims,
    charged_to_pods,
    claim_charges,
    pod_charges,
)
from tonnage.decide.kubernetes.admission.object_charges import UNCOUNTED, Resource, counted_by, object_charges
from tonnage.decide.kubernetes.admission.quota import Formats, form_of
from tonnage.decide.kubernetes.admission.scopes import counts, counts_object
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.policies import Quota
from tonnage.model.kubernetes.quantity import parse_quantity, quantity_format, write_quantity
from tonnage.model.kubernetes.resource_claims import ResourceClaim

_DEVICE_CLAIM: Final[Resource] = ("resource.k8s.io", "resourceclaims")
_POD: Final[Resource] = ("", "pods")

Countable = tuple[JsonObject, ResourceClaim | None]
"""An object that is no pod, as it is written, and what it says where it is a claim for devices."""


def counted(
    quota: Quota,
    pods: Iterable[Pod],
    objects: Mapping[Resource, Iterable[Countable] | None] = MappingProxyType({}),
) -> dict[str, dict[str, str]]:
    """The status of a quota: its limits, and what these pods and objects use of them.

    A kind whose objects are None is not known yet, and its keys are not told.
    """
    charges: list[Charges] = [pod_charges(pod) for pod in pods if counts(quota, pod)]
    for resource, there in objects.items():
        charges += [
            charges_of(resource, *countable)
            for countable in there or ()
            if counts_object(quota, resource, countable[0])
        ]
    used = {
        key: write_quantity(
            sum((charge.get(key, Fraction(0)) for charge in charges), Fraction(0)),
            _form(quota.used.get(key)) or quantity_format(amount),
        )
        for key, amount in quota.spec_hard.items()
        if charged_to_pods(key) or objects.get(counted_here(key) or ("", "")) is not None
    }
    return {"hard": dict(quota.spec_hard), "used": used}


def counted_here(key: str) -> Resource | None:
    """The kind that a key counts, but for pods, which are counted otherwise."""
    if charged_to_claims(key):
        return _DEVICE_CLAIM
    resource = counted_by(key)
    return None if charged_to_pods(key) or resource in UNCOUNTED else resource


def bounds(key: str, resource: Resource) -> bool:
    """Whether a key of a quota counts something of a kind.

    >>> bounds("requests.cpu", ("", "pods")), bounds("requests.cpu", ("", "services"))
    (True, False)
    """
    return charged_to_pods(key) if resource == _POD else counted_here(key) == resource


def charges_of(resource: Resource, obj: JsonObject, claim: ResourceClaim | None) -> Charges:
    """What an object that is no pod costs, by key."""
    return object_charges(resource, obj) if claim is None else claim_charges(claim)


def added(used: Mapping[str, str], charges: Charges, formats: Formats) -> dict[str, str]:
    """What is used once charges are added: written as it was, or as what is added to nothing.

    >>> added({"memory": "0", "pods": "1"}, {"memory": Fraction(1024)}, {"requests.memory": "binary"})
    {'memory': '1Ki', 'pods': '1'}
    """
    return {
        key: write_quantity(parse_quantity(amount) + charges[key], _form(amount) or form_of(key, formats))
        if charges.get(key)
        else amount
        for key, amount in used.items()
    }


def _form(amount: str | None) -> str:
    """How an amount is written; nothing is written in no form of its own."""
    return quantity_format(amount) if amount is not None and parse_quantity(amount) else ""
