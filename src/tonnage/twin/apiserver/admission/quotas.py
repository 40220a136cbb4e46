"""ResourceQuota: what a quota of the namespace has no room for is refused.

Source: plugin/pkg/admission/resourcequota of k8s.io/apiserver (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from tonnage.decide.kubernetes.admission.charges import Charges
from tonnage.decide.kubernetes.admission.limit_ranges import formats_of
from tonnage.decide.kubernetes.admission.object_charges import UNCOUNTED
from tonnage.decide.kubernetes.admission.quota import (
    Formats,
    claim_refusals,
    more,
    object_refusal,
    pod_change,
    pod_refusals,
)
from tonnage.decide.kubernetes.admission.quota_usage import added, bounds, charges_of, counted
from tonnage.decide.kubernetes.admission.refusal import AdmissionRefusal
from tonnage.decide.kubernetes.admission.scopes import counts, counts_object
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, mapping, opened, put, text
from tonnage.model.kubernetes import cluster
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.kubernetes.policies import Quota
from tonnage.model.kubernetes.quantity import quantity_format
from tonnage.reading.claims import claim_in
from tonnage.reading.cluster import snapshot_from
from tonnage.twin.apiserver.admission.limits import written_manifest
from tonnage.twin.apiserver.object_store import ObjectStore, Resource, Stored
from tonnage.twin.apiserver.ownership.field_manager import FieldOwnership
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import CLAIM, POD
from tonnage.twin.apiserver.statuses import forbidden
from tonnage.wire.objects import Pod, ResourceQuota

RESOURCE_QUOTA: Final[Resource] = ("", "resourcequotas")
_MINOR: Final = 35
_CHANGING: Final = (("", "persistentvolumeclaims"), ("", "services"))
"""Kinds of which a change may cost more than before."""


class ResourceQuotas:
    """Charges what is written to the status of quotas; what turns out not to be written stays charged.

    What a status says is used is believed: only what it does not say yet is counted here.
    """

    def __init__(self, store: ObjectStore, ownership: FieldOwnership) -> None:
        self._store = store
        self._ownership = ownership

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Refuse an object that costs too much, dry runs too; charge one that does not."""
        if obj is None or not request.namespace or not _may_cost(request, obj, old):
            return
        stored = self._store.list(RESOURCE_QUOTA, namespace=request.namespace)
        if not stored:
            return
        quotas = [self._counted(request, quota_object) for quota_object in stored]
        write = _written(request.resource, obj, old)
        if request.subresource != "status":  # What is there already is only charged.
            for refusal in _refusals(request, obj, write, quotas):
                raise forbidden(request.resource, text(obj, "metadata", "name"), refusal.text)
        if not request.options.dry_run:
            for quota_object, quota in zip(stored, quotas, strict=True):
                self._charge(quota_object, quota, write)

    def _counted(self, request: ApiRequest, stored: Stored) -> Quota:
        """A quota, with what is used of it."""
        [quota] = snapshot_from([stored.as_type(ResourceQuota)]).quotas
        unsaid = quota.hard.keys() - quota.used.keys()
        if quota.counted and not any(bounds(key, request.resource) for key in unsaid):
            return quota
        there = self._store.list(request.resource, namespace=request.namespace)
        if request.resource == POD:
            used = counted(
                quota, snapshot_from(counted_object.as_type(Pod) for counted_object in there).pods
            )["used"]
        else:
            objects = [
                (counted_object.object, claim_in(request.resource, counted_object.object))
                for counted_object in there
            ]
            used = counted(quota, (), {request.resource: objects})["used"]
        return replace(quota, used={**used, **quota.used}, counted=True)

    def _charge(self, stored: Stored, quota: Quota, write: _Write) -> None:
        """Write what is used from now on, if the controller has been there."""
        used, cost = mapping(stored.object, "status", "used"), write.cost(quota)
        used_amounts = {key: str(amount) for key, amount in used.items() if key in quota.hard}
        if not any(cost.get(key) for key in used_amounts):
            return
        obj = opened(stored.object)
        put(obj, {**used, **added(used_amounts, cost, write.formats)}, "status", "used")
        self._ownership.sign_status(RESOURCE_QUOTA, obj, stored.object)
        self._store.update(RESOURCE_QUOTA, (quota.namespace, quota.name), obj, read=stored)


def _may_cost(request: ApiRequest, obj: JsonObject, old: JsonObject | None) -> bool:
    """Whether a write is one that quotas are asked about."""
    if request.subresource:
        return (request.subresource, request.resource) == ("status", CLAIM)
    if old is None or request.resource in _CHANGING:
        return request.resource not in UNCOUNTED
    ends = ("spec", "activeDeadlineSeconds")
    return request.resource == POD and (at(obj, *ends) is None) != (at(old, *ends) is None)


@dataclass(frozen=True, slots=True)
class _Write:
    """What is written, as quotas look at it; `pod` and `before` are None for other kinds."""

    resource: Resource
    obj: JsonObject
    old: JsonObject | None
    formats: Formats
    pod: cluster.Pod | None = None
    before: cluster.Pod | None = None
    charges: Charges = field(default_factory=dict)
    charged: Charges = field(default_factory=dict)
    """By what is written, and by what was there before, of a quota that counts them."""

    def cost(self, quota: Quota) -> Charges:
        """What it costs of a quota."""
        if self.pod is not None:
            return pod_change(quota, self.pod, self.before) if counts(quota, self.pod) else {}
        if not counts_object(quota, self.resource, self.obj):
            return {}
        was_counted = self.old is not None and counts_object(quota, self.resource, self.old)
        return more(self.charges, self.charged if was_counted else {})


def _written(resource: Resource, obj: JsonObject, old: JsonObject | None) -> _Write:
    if resource == POD:
        manifest = written_manifest(obj)
        before = written_manifest(old).pod if old is not None else None
        return _Write(resource, obj, old, formats_of(manifest), manifest.pod, before)
    charges = _charges(resource, obj)
    charged = {} if old is None else _charges(resource, old)
    formats: Formats = {}
    if storage := [key for key in charges if key.endswith("requests.storage")]:
        form = quantity_format(str(at(obj, "spec", "resources", "requests", "storage")))
        formats = {f"requests.{key.removeprefix('requests.')}": form for key in storage}
    return _Write(resource, obj, old, formats, charges=charges, charged=charged)


def _charges(resource: Resource, obj: JsonObject) -> Charges:
    return charges_of(resource, obj, claim_in(resource, obj))


def _refusals(
    request: ApiRequest, obj: JsonObject, write: _Write, quotas: list[Quota]
) -> Iterable[AdmissionRefusal]:
    snapshot = Snapshot(quotas=tuple(quotas))
    if write.pod is not None:
        return pod_refusals(write.pod, snapshot, write.formats, write.before)
    claim = claim_in(request.resource, obj)
    if claim is not None:
        return claim_refusals(claim, snapshot, minor=_MINOR)
    refusals = (object_refusal(quota, write.cost(quota), write.formats) for quota in quotas)
    return [refusal for refusal in refusals if refusal is not None]
