"""ResourceQuota: what a quota of the namespace has no room for is refused.

Source: plugin/pkg/admission/resourcequota of k8s.io/apiserver (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

import msgspec

from tonnage.adapters.reading import snapshot_from
from tonnage.decide.cluster.admission.limit_ranges import formats_of
from tonnage.decide.cluster.admission.object_charges import UNCOUNTED, counted_by, object_charges
from tonnage.decide.cluster.admission.quota import (
    QuotaRefusal,
    claim_refusals,
    object_refusal,
    pod_refusals,
)
from tonnage.model.cluster import Quota
from tonnage.model.json import JsonObject
from tonnage.model.quantity import quantity_format
from tonnage.twin.apiserver.access import at, text
from tonnage.twin.apiserver.limits import written_manifest
from tonnage.twin.apiserver.requests import Request
from tonnage.twin.apiserver.statuses import forbidden
from tonnage.twin.apiserver.store import Resource, Store
from tonnage.twin.apiserver.strategies import POD
from tonnage.wire.claims import ResourceClaim
from tonnage.wire.objects import Pod, ResourceQuota

RESOURCE_QUOTA: Final[Resource] = ("", "resourcequotas")
_DEVICE_CLAIM: Final[Resource] = ("resource.k8s.io", "resourceclaims")
_CHANGING: Final = (("", "persistentvolumeclaims"), ("", "services"))
"""Kinds of which a change may cost more than before."""
_MINOR: Final = 35


class ResourceQuotas:
    """Counts what is there: the status of a quota is a little behind, as the controller that writes it is."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def admit(self, request: Request, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Refuse an object that costs too much, dry runs too."""
        resized = request.subresource == "resize"
        if (request.subresource and not resized) or obj is None or not request.namespace:
            return
        if request.resource in UNCOUNTED:
            return
        if old is not None and request.resource not in _CHANGING and not resized:
            return
        stored = self._store.list(RESOURCE_QUOTA, namespace=request.namespace)
        if not stored:
            return
        written = [msgspec.convert(one.object, ResourceQuota) for one in stored]
        quotas = [replace(one, used={}, counted=False) for one in snapshot_from(written).quotas]
        for refusal in self._refusals(request, obj, old, quotas):
            raise forbidden(request.resource, text(obj, "metadata", "name"), refusal.text)

    def _refusals(
        self, request: Request, obj: JsonObject, old: JsonObject | None, quotas: list[Quota]
    ) -> Iterable[QuotaRefusal]:
        there = [one.object for one in self._store.list(request.resource, namespace=request.namespace)]
        if request.resource == POD:
            found = snapshot_from([msgspec.convert(one, Pod) for one in there])
            manifest = written_manifest(obj)
            before = written_manifest(old).pod if old is not None else None
            snapshot = replace(found, quotas=tuple(quotas))
            return pod_refusals(manifest.pod, snapshot, formats_of(manifest), before)
        if request.resource == _DEVICE_CLAIM:
            found = snapshot_from([msgspec.convert(one, ResourceClaim) for one in there])
            [claim] = snapshot_from([msgspec.convert(obj, ResourceClaim)]).claims
            return claim_refusals(claim, replace(found, quotas=tuple(quotas)), minor=_MINOR)
        return self._object_refusals(request.resource, obj, old, quotas, there)

    def _object_refusals(
        self,
        resource: Resource,
        obj: JsonObject,
        old: JsonObject | None,
        quotas: list[Quota],
        there: list[JsonObject],
    ) -> Iterator[QuotaRefusal]:
        quotas = [one for one in quotas if any(counted_by(key) == resource for key in one.hard)]
        if not quotas:
            return
        used = total_charges(resource, there)
        asked = object_charges(resource, obj)
        if old is not None:
            before = object_charges(resource, old)
            asked = {key: max(amount - before.get(key, 0), Fraction(0)) for key, amount in asked.items()}
        forms = _form([obj]), _form(there)
        for quota in quotas:
            refusal = object_refusal(quota, asked, used, forms)
            if refusal is not None:
                yield refusal


def _form(objects: Iterable[JsonObject]) -> str:
    """How a sum of volume claims' bytes is written: as the first of them writes its own."""
    amounts = (at(one, "spec", "resources", "requests", "storage") for one in objects)
    return next((quantity_format(str(amount)) for amount in amounts if amount is not None), "decimal")


def total_charges(resource: Resource, objects: Iterable[JsonObject]) -> dict[str, Fraction]:
    """What objects of a kind cost together, by key."""
    total: dict[str, Fraction] = {}
    for one in objects:
        for key, amount in object_charges(resource, one).items():
            total[key] = total.get(key, Fraction(0)) + amount
    return total
