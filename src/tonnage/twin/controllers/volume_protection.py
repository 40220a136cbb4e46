"""Volumes and claims that are being deleted go once nobody uses them.

Source: k8s.io/kubernetes/pkg/controller/volume/{pvcprotection,pvprotection} (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.adapters.informer import Delta, Informers, Key, following, key_of
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonValue
from tonnage.wire.kinds import POD, Kind
from tonnage.wire.objects import Object, Pod, Service

# Services have a spec and a status of any content, so they can stand for both kinds.
CLAIM: Final = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, Service)
VOLUME: Final = Kind("", "v1", "PersistentVolume", "persistentvolumes", False, Service)
_OF_CLAIMS: Final = "kubernetes.io/pvc-protection"
_OF_VOLUMES: Final = "kubernetes.io/pv-protection"


class VolumeProtectionController:
    """Takes the finalizer from what is deleted and free: a claim without pods, a volume without a claim."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._claims = informers.of(CLAIM, self._queue.add)
        self._volumes = informers.of(VOLUME, self._queue.add)
        self._pods = informers.of(POD)
        self._pods.add_index("claim", claim_keys)
        self._pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        """Let go until cancelled."""
        async with following(self._claims, self._volumes, self._pods) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        for pod in (delta.before, delta.after):
            for key in _claims_of(pod) if pod is not None else ():
                self._queue.add(key)

    async def _reconcile(self, key: Key) -> None:
        namespace, name = key
        if namespace:
            claim = self._claims.get(name, namespace)
            users = self._pods.by_index("claim", f"{namespace}/{name}")
            if claim is not None and not any(pod.spec.node_name for pod in users):
                await self._release(CLAIM, claim, _OF_CLAIMS)
        else:
            volume = self._volumes.get(name)
            if volume is not None and volume.status.get("phase") != "Bound":
                await self._release(VOLUME, volume, _OF_VOLUMES)

    async def _release(self, kind: Kind[Service], found: Object, finalizer: str) -> None:
        meta = found.metadata
        if meta.deletion_timestamp is None or finalizer not in meta.finalizers:
            return
        rest: list[JsonValue] = [one for one in meta.finalizers if one != finalizer]
        patch: JsonValue = {"metadata": {"finalizers": rest, "resourceVersion": meta.resource_version}}
        namespace, name = key_of(found)
        try:
            await self._api.patch(kind, name, patch, namespace=namespace or None)
        except ApiError as error:
            if error.code not in (404, 409):
                raise


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
