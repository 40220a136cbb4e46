"""resourcequota.Controller: keeps in a ResourceQuota's status what its namespace uses.

Source: k8s.io/kubernetes/pkg/controller/resourcequota (v1.35).
"""

from __future__ import annotations

import math
from typing import Final

from tonnage.decide.kubernetes.admission.quota_usage import Countable, bounds, counted, counted_here
from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.refusals import or_none
from tonnage.loop.status_writes import patch_as_seen
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.reading.claims import claim_in
from tonnage.reading.cluster import snapshot_from
from tonnage.twin.controllers.deletable_objects import Resource
from tonnage.twin.controllers.quotas.counted_objects import CountedObjects
from tonnage.wire.kinds import POD, RESOURCE_QUOTA
from tonnage.wire.objects import Pod, ResourceQuota, Service

_COUNTED_AGAIN_S: Final = 300.0
"""What nobody has told of a change is counted as it is again after that time."""
_ENDED: Final = ("Failed", "Succeeded")


class ResourceQuotaController:
    """Counts anew what a quota bounds once some of it is free; what is new, admission has charged."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._warned: dict[Key, float] = {}
        """The revision at which each status was written last; without end while it is being written."""
        self._quotas = informers.of(RESOURCE_QUOTA)
        self._quotas.subscribe(self._quota_changed)
        self._quotas.add_index("namespace", lambda quota: [quota.metadata.namespace])
        self._pods = informers.of(POD)
        self._pods.add_index("namespace", lambda pod: [pod.metadata.namespace])
        self._pods.subscribe(self._pod_changed)
        self._objects = CountedObjects(api, clock, self._changed, self._kind_synced)

    async def run(self) -> None:
        """Count until cancelled."""
        async with following(self._quotas, self._pods, self._objects) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _quota_changed(self, delta: Delta[ResourceQuota]) -> None:
        quota, before = delta.after, delta.before
        if quota is None:
            assert before is not None
            self._warned.pop(key_of(before), None)
        elif before is None or _hard(before) != _hard(quota):
            self._queue.add(key_of(quota))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        if delta.before is None or delta.after is None or _frees(delta.before, delta.after):
            self._changed((POD.group, POD.plural), delta)

    def _changed(self, resource: Resource, delta: Delta[Pod] | Delta[Service]) -> None:
        """Count anew where something is free, or is there that was not when its quota was counted.

        What came after the status was written has been charged there.
        """
        obj = delta.after or delta.before
        assert obj is not None
        made = int(obj.metadata.resource_version) if delta.before is None else 0
        for quota in self._quotas.by_index("namespace", obj.metadata.namespace):
            late = made < self._warned.get(key_of(quota), math.inf)
            if late and any(bounds(key, resource) for key in _hard(quota)):
                self._queue.add(key_of(quota))

    def _kind_synced(self, resource: Resource) -> None:
        for quota in self._quotas:
            if any(bounds(key, resource) for key in _hard(quota)):
                self._queue.add(key_of(quota))

    async def _reconcile(self, key: Key) -> float | None:
        namespace, name = key
        quota = self._quotas.get(name, namespace)
        if quota is None:
            return None
        kinds = {
            resource for counted_name in _hard(quota) if (resource := counted_here(counted_name)) is not None
        }
        self._objects.want(kinds)
        snapshot = snapshot_from([quota, *self._pods.by_index("namespace", namespace)])
        [limits] = snapshot.quotas
        status = counted(
            limits, snapshot.pods, {kind: self._known_objects(kind, namespace) for kind in kinds}
        )
        # A merge patch keeps what it does not name, so what is gone is named.
        rows = {part: dict.fromkeys(quota.status.get(part, {})) | status[part] for part in status}
        patch: JsonObject = {"status": {part: {**row} for part, row in rows.items()}}
        self._warned[key] = math.inf
        # As it was seen: what admission has charged meanwhile must not be lost.
        written = await or_none(patch_as_seen(self._api, RESOURCE_QUOTA, quota, patch, "status"))
        if written is None:
            return None
        self._warned[key] = int(written.metadata.resource_version)
        return _COUNTED_AGAIN_S

    def _known_objects(self, resource: Resource, namespace: str) -> list[Countable] | None:
        """The objects of a kind; None while they are not known."""
        there = self._objects.of(resource, namespace)
        return None if there is None else [(obj, claim_in(resource, obj)) for obj in there]


def _hard(quota: ResourceQuota) -> dict[str, str]:
    """What the spec bounds."""
    return {key: str(amount) for key, amount in quota.spec.get("hard", {}).items()}


def _frees(before: Pod, after: Pod) -> bool:
    """Whether a pod may cost less, or is counted otherwise, than before."""
    held = _held(before)
    resized = any(name in held and held[name] != amounts for name, amounts in _held(after).items())
    return resized or _counted_as(before) != _counted_as(after)


def _held(pod: Pod) -> dict[str, object]:
    """What containers have, by name."""
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return {status.get("name", ""): status.get("resources") for status in statuses}


def _counted_as(pod: Pod) -> object:
    """What else may change of a pod that quotas look at."""
    resources = [container.resources for container in (*pod.spec.containers, *pod.spec.init_containers)]
    return pod.status.phase in _ENDED, pod.spec.active_deadline_seconds is None, resources, pod.spec.resources
