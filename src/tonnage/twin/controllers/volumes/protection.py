"""pvcprotection.Controller and its like: deleted volumes and claims go once nobody uses them.

Source: k8s.io/kubernetes/pkg/controller/volume/{pvcprotection,pvprotection,vacprotection} (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.refusals import passing_over
from tonnage.loop.status_writes import patch_as_seen
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import POD, Kind
from tonnage.wire.objects import Object, Pod, Service

# Services have a spec and a status of any content, so they can stand for these kinds.
CLAIM: Final = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, Service)
VOLUME: Final = Kind("", "v1", "PersistentVolume", "persistentvolumes", False, Service)
CLASS: Final = Kind(
    "storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses", False, Service
)
_FINALIZERS: Final = {
    CLAIM: "kubernetes.io/pvc-protection",
    VOLUME: "kubernetes.io/pv-protection",
    CLASS: "kubernetes.io/vac-protection",
}


class VolumeProtectionController:
    """Sees to finalizers: what stands has one; what is deleted loses it once nobody uses it."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._queue: WorkQueue[tuple[Kind[Service], Key]] = WorkQueue(clock)
        self._copies = {kind: informers.of(kind, partial(self._changed, kind)) for kind in _FINALIZERS}
        for kind in (CLAIM, VOLUME):
            self._copies[kind].add_index("class", lambda user: list(_classes_of(user)))
            self._copies[kind].subscribe(self._user_changed)
        self._pods = informers.of(POD)
        self._pods.add_index("claim", claim_keys)
        self._pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        """Protect and let go until cancelled."""
        async with following(*self._copies.values(), self._pods) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _changed(self, kind: Kind[Service], key: Key) -> None:
        self._queue.add((kind, key))

    def _user_changed(self, delta: Delta[Service]) -> None:
        for user in (delta.before, delta.after):
            for name in _classes_of(user) if user is not None else ():
                self._changed(CLASS, ("", name))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        for pod in (delta.before, delta.after):
            for key in _claims_of(pod) if pod is not None else ():
                self._changed(CLAIM, key)

    async def _reconcile(self, protected: tuple[Kind[Service], Key]) -> None:
        kind, (namespace, name) = protected
        obj = self._copies[kind].get(name, namespace)
        if obj is None:
            return
        finalizer, finalizers = _FINALIZERS[kind], obj.metadata.finalizers
        if obj.metadata.deletion_timestamp is None:
            if finalizer not in finalizers:
                await self._write(kind, obj, [*finalizers, finalizer])
        elif finalizer in finalizers and not self._used(kind, obj):
            await self._write(kind, obj, [other for other in finalizers if other != finalizer])

    def _used(self, kind: Kind[Service], obj: Service) -> bool:
        namespace, name = key_of(obj)
        if kind is VOLUME:
            return obj.status.get("phase") == "Bound"
        if kind is CLASS:
            return any(self._copies[user].by_index("class", name) for user in (CLAIM, VOLUME))
        return any(pod.spec.node_name for pod in self._pods.by_index("claim", f"{namespace}/{name}"))

    async def _write(self, kind: Kind[Service], obj: Object, finalizers: list[str]) -> None:
        with passing_over(404, 409):
            await patch_as_seen(self._api, kind, obj, {"metadata": {"finalizers": [*finalizers]}})


def _classes_of(user: Service) -> Iterator[str]:
    """Classes of attributes that a claim or a volume has, had, or is to have."""
    names = (
        user.spec.get("volumeAttributesClassName"),
        user.status.get("currentVolumeAttributesClassName"),
        (user.status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    yield from {str(name) for name in names if name}


def claim_keys(pod: Pod) -> list[str]:
    """The claims that a pod uses as they stand in an index."""
    return [f"{namespace}/{name}" for namespace, name in _claims_of(pod)]


def _claims_of(pod: Pod) -> Iterator[Key]:
    """Claims that a pod uses, from the moment when it has a node; its own ones no longer than it runs."""
    for volume in pod.spec.volumes:
        claim = volume.get("persistentVolumeClaim")
        if isinstance(claim, dict):
            yield pod.metadata.namespace, str(claim.get("claimName", ""))
        elif "ephemeral" in volume and pod.status.phase not in ("Succeeded", "Failed"):
            yield pod.metadata.namespace, f"{pod.metadata.name}-{volume.get('name', '')}"
