"""The quota controller: keeps in a ResourceQuota's status what its namespace uses.

Source: k8s.io/kubernetes/pkg/controller/resourcequota (v1.35).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from tonnage.adapters.informer import Delta, Informers, Key, following, key_of
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.quota_usage import at_least, counted, counted_here, hard_of
from tonnage.twin.controllers.counted_objects import CountedObjects
from tonnage.wire.kinds import POD, RESOURCE_QUOTA
from tonnage.wire.objects import Pod, ResourceQuota

_COUNTED_AGAIN_S: Final = 300.0
"""What nobody has told of a change is counted as it is again after that time."""


class ResourceQuotaController:
    """Counts anew whenever a pod or what a quota bounds changes; what others say is used stays."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._clock = clock
        self._exact: dict[Key, datetime | None] = {}
        """When each was last counted as it is; None: is to be."""
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
        if quota is not None and (before is None or hard_of(before) != hard_of(quota)):
            self._exact[key_of(quota)] = None
            self._queue.add(key_of(quota))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        pod = delta.after or delta.before
        if pod is not None:
            frees = delta.after is None or (delta.before is not None and _frees(delta.before, delta.after))
            self._changed(pod.metadata.namespace, frees=frees)

    def _changed(self, namespace: str, *, frees: bool = True) -> None:
        """Count anew in a namespace; in all, if it has no name. What a change frees is less afterwards."""
        quotas = self._quotas.by_index("namespace", namespace) if namespace else list(self._quotas)
        for quota in quotas:
            if frees:
                self._exact[key_of(quota)] = None
            self._queue.add(key_of(quota))

    async def _reconcile(self, key: Key) -> float | None:
        namespace, name = key
        quota, now = self._quotas.get(name, namespace), self._clock.now()
        if quota is None:
            self._exact.pop(key, None)
            return None
        kinds = {resource for one in hard_of(quota) if (resource := counted_here(one)) is not None}
        self._objects.want(kinds)
        objects = {resource: self._objects.of(resource, namespace) for resource in kinds}
        status = counted(quota, self._pods.by_index("namespace", namespace), objects)
        last = self._exact.get(key)
        if last is None or now - last >= timedelta(seconds=_COUNTED_AGAIN_S):
            self._exact[key] = now
        else:
            # What admission has charged for a write that failed stays charged.
            status["used"] = at_least(quota.status.get("used", {}), status["used"])
            status["hard"] = quota.status.get("hard", status["hard"])
        if status == {"hard": {}, "used": {}, **quota.status}:
            return _COUNTED_AGAIN_S
        # A merge patch keeps what it does not name, so what is gone is named.
        rows = {part: dict.fromkeys(quota.status.get(part, {})) | status[part] for part in status}
        patch: JsonObject = {"status": {part: {**row} for part, row in rows.items()}}
        try:
            await self._api.patch(RESOURCE_QUOTA, name, patch, namespace=namespace, subresource="status")
        except ApiError as error:
            if error.code != 404:
                raise
        return _COUNTED_AGAIN_S


def _frees(before: Pod, after: Pod) -> bool:
    """Whether a pod costs less, or is counted otherwise, than before."""
    ended = ("Failed", "Succeeded")
    return (after.status.phase in ended and before.status.phase not in ended) or before.spec != after.spec
