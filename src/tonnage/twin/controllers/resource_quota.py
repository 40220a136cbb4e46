"""The quota controller: keeps in a ResourceQuota's status what its namespace uses.

Source: k8s.io/kubernetes/pkg/controller/resourcequota (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final

import msgspec

from tonnage.adapters.informer import Delta, Informers, Key, following, key_of
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.reading import snapshot_from
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.decide.cluster.admission.charges import (
    charged_to_claims,
    charged_to_pods,
    claim_charges,
    pod_charges,
)
from tonnage.decide.cluster.admission.object_charges import UNCOUNTED, Resource, counted_by, object_charges
from tonnage.decide.cluster.admission.scopes import counts
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.quantity import write_quantity
from tonnage.twin.controllers.counted_objects import CountedObjects
from tonnage.wire.claims import ResourceClaim
from tonnage.wire.kinds import POD, RESOURCE_QUOTA
from tonnage.wire.objects import Pod, ResourceQuota

_DEVICE_CLAIM: Final[Resource] = ("resource.k8s.io", "resourceclaims")


class ResourceQuotaController:
    """Counts anew whenever a pod or what a quota bounds changes; what others say is used stays."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._quotas = informers.of(RESOURCE_QUOTA)
        self._quotas.subscribe(self._quota_changed)
        self._quotas.add_index("namespace", lambda quota: [quota.metadata.namespace])
        self._pods = informers.of(POD)
        self._pods.add_index("namespace", lambda pod: [pod.metadata.namespace])
        self._pods.subscribe(self._pod_changed)
        self._objects = CountedObjects(api, clock, self._changed)

    async def run(self) -> None:
        """Count until cancelled."""
        async with following(self._quotas, self._pods, self._objects) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _quota_changed(self, delta: Delta[ResourceQuota]) -> None:
        quota, before = delta.after, delta.before
        if quota is not None and (before is None or _hard(before) != _hard(quota)):
            self._queue.add(key_of(quota))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        pod = delta.after or delta.before
        if pod is not None:
            self._changed(pod.metadata.namespace)

    def _changed(self, namespace: str) -> None:
        """Count anew in a namespace; in all, if it has no name."""
        quotas = self._quotas.by_index("namespace", namespace) if namespace else list(self._quotas)
        for quota in quotas:
            self._queue.add(key_of(quota))

    async def _reconcile(self, key: Key) -> None:
        namespace, name = key
        quota = self._quotas.get(name, namespace)
        if quota is None:
            return
        kinds = {resource for key in _hard(quota) if (resource := _counted_here(key)) is not None}
        self._objects.want(kinds)
        objects = {resource: self._objects.of(resource, namespace) for resource in kinds}
        status = counted(quota, self._pods.by_index("namespace", namespace), objects)
        if status == {"hard": {}, "used": {}, **quota.status}:
            return
        # A merge patch keeps what it does not name, so what is gone is named.
        rows = {part: dict.fromkeys(quota.status.get(part, {})) | status[part] for part in status}
        patch: JsonObject = {"status": {part: {**row} for part, row in rows.items()}}
        try:
            await self._api.patch(RESOURCE_QUOTA, name, patch, namespace=namespace, subresource="status")
        except ApiError as error:
            if error.code != 404:
                raise


def counted(
    quota: ResourceQuota,
    pods: Iterable[Pod],
    objects: Mapping[Resource, Iterable[JsonObject] | None] = MappingProxyType({}),
) -> dict[str, dict[str, str]]:
    """The status of a quota: its limits, and what these pods and objects use of them.

    A kind whose objects are None is not known yet, and its keys are not told.
    """
    hard = _hard(quota)
    found = snapshot_from([quota, *pods])
    [limits] = found.quotas
    charges: list[Mapping[str, Fraction]] = [pod_charges(pod) for pod in found.pods if counts(limits, pod)]
    for resource, there in objects.items():
        if not limits.scopes:
            charges += [_charges(resource, one) for one in there or ()]
    used = {
        key: write_quantity(
            sum((charge.get(key, Fraction(0)) for charge in charges), Fraction(0)),
            "binary" if amount.endswith("i") else "decimal",
        )
        for key, amount in hard.items()
        if charged_to_pods(key) or objects.get(_counted_here(key) or ("", "")) is not None
    }
    return {"hard": hard, "used": used}


def _hard(quota: ResourceQuota) -> dict[str, str]:
    return {key: str(amount) for key, amount in quota.spec.get("hard", {}).items()}


def _counted_here(key: str) -> Resource | None:
    """The kind that a key counts, but for pods, which are counted otherwise."""
    if charged_to_claims(key):
        return _DEVICE_CLAIM
    resource = counted_by(key)
    return None if charged_to_pods(key) or resource in UNCOUNTED else resource


def _charges(resource: Resource, one: JsonObject) -> Mapping[str, Fraction]:
    if resource != _DEVICE_CLAIM:
        return object_charges(resource, one)
    [claim] = snapshot_from([msgspec.convert(one, ResourceClaim)]).claims
    return claim_charges(claim)
