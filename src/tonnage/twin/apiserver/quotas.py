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
from tonnage.decide.cluster.admission.charges import Charges, pod_charges
from tonnage.decide.cluster.admission.limit_ranges import formats_of
from tonnage.decide.cluster.admission.object_charges import UNCOUNTED, object_charges
from tonnage.decide.cluster.admission.quota import (
    QuotaRefusal,
    claim_refusals,
    object_refusal,
    pod_refusals,
)
from tonnage.decide.cluster.admission.scopes import counts
from tonnage.model.cluster import Quota
from tonnage.model.json import JsonObject
from tonnage.model.quantity import parse_quantity, quantity_format
from tonnage.twin.apiserver.access import at, mapping, opened, put, text
from tonnage.twin.apiserver.limits import written_manifest
from tonnage.twin.apiserver.quota_usage import DEVICE_CLAIM, added, at_least, charges_of, counted
from tonnage.twin.apiserver.requests import Request
from tonnage.twin.apiserver.statuses import forbidden
from tonnage.twin.apiserver.store import Resource, Store, Stored
from tonnage.twin.apiserver.strategies import POD
from tonnage.wire.claims import ResourceClaim
from tonnage.wire.objects import Pod, ResourceQuota

RESOURCE_QUOTA: Final[Resource] = ("", "resourcequotas")
_CHANGING: Final = (("", "persistentvolumeclaims"), ("", "services"))
"""Kinds of which a change may cost more than before."""
_MINOR: Final = 35


class ResourceQuotas:
    """Charges what is written to the status of quotas; what turns out not to be written stays charged.

    Where more is there than the status says, that counts.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def admit(self, request: Request, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Refuse an object that costs too much, dry runs too; charge one that does not."""
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
        there = [one.object for one in self._store.list(request.resource, namespace=request.namespace)]
        quotas = _quotas([one.object for one in stored], request.resource, there)
        for refusal in _refusals(request, obj, old, quotas, there):
            raise forbidden(request.resource, text(obj, "metadata", "name"), refusal.text)
        if not request.options.dry_run:
            for one, quota in zip(stored, quotas, strict=True):
                self._charge(one, quota, _asked(request.resource, obj, old, quota))

    def _charge(self, stored: Stored, quota: Quota, asked: Charges) -> None:
        """Write what is used from now on, if the controller has been there."""
        if not any(asked.get(key) for key in quota.used) or not mapping(stored.object, "status", "hard"):
            return
        used = {**mapping(stored.object, "status", "used"), **added(quota.hard, quota.used, asked)}
        obj = opened(stored.object)
        put(obj, used, "status", "used")
        name = text(obj, "metadata", "name")
        self._store.update(RESOURCE_QUOTA, (quota.namespace, name), obj, read=stored)


def _quotas(written: list[JsonObject], resource: Resource, there: list[JsonObject]) -> list[Quota]:
    """The quotas, and what objects of a kind use of them."""
    read = [msgspec.convert(one, ResourceQuota) for one in written]
    pods = [msgspec.convert(one, Pod) for one in there] if resource == POD else []
    objects = {} if resource == POD else {resource: there}
    return [
        replace(quota, used=at_least(quota.used, counted(one, pods, objects)["used"]), counted=True)
        for one, quota in zip(read, snapshot_from(read).quotas, strict=True)
    ]


def _asked(resource: Resource, obj: JsonObject, old: JsonObject | None, quota: Quota) -> Charges:
    """What a write costs of a quota."""
    if resource == POD:
        pod = written_manifest(obj).pod
        if not counts(quota, pod):
            return {}
        before: Charges = pod_charges(written_manifest(old).pod) if old is not None else {}
        return _more(pod_charges(pod), before)
    if quota.scopes:
        return {}
    return _more(charges_of(resource, obj), charges_of(resource, old) if old is not None else {})


def _more(charges: Charges, before: Charges) -> Charges:
    return {key: max(amount - before.get(key, 0), Fraction(0)) for key, amount in charges.items()}


def _refusals(
    request: Request, obj: JsonObject, old: JsonObject | None, quotas: list[Quota], there: list[JsonObject]
) -> Iterable[QuotaRefusal]:
    if request.resource == POD:
        found = snapshot_from([msgspec.convert(one, Pod) for one in there])
        manifest = written_manifest(obj)
        before = written_manifest(old).pod if old is not None else None
        snapshot = replace(found, quotas=tuple(quotas))
        return pod_refusals(manifest.pod, snapshot, formats_of(manifest), before)
    if request.resource == DEVICE_CLAIM:
        found = snapshot_from([msgspec.convert(one, ResourceClaim) for one in there])
        [claim] = snapshot_from([msgspec.convert(obj, ResourceClaim)]).claims
        return claim_refusals(claim, replace(found, quotas=tuple(quotas)), minor=_MINOR)
    return _object_refusals(request.resource, obj, old, quotas, there)


def _object_refusals(
    resource: Resource,
    obj: JsonObject,
    old: JsonObject | None,
    quotas: list[Quota],
    there: list[JsonObject],
) -> Iterator[QuotaRefusal]:
    asked = _more(object_charges(resource, obj), object_charges(resource, old) if old is not None else {})
    forms = _form([obj]), _form(there)
    for quota in quotas:
        used = {key: parse_quantity(amount) for key, amount in quota.used.items()}
        refusal = object_refusal(quota, asked, used, forms)
        if refusal is not None:
            yield refusal


def _form(objects: Iterable[JsonObject]) -> str:
    """How a sum of volume claims' bytes is written: as the first of them writes its own."""
    amounts = (at(one, "spec", "resources", "requests", "storage") for one in objects)
    return next((quantity_format(str(amount)) for amount in amounts if amount is not None), "decimal")
