"""Claims that ask for more than they have are told who could give it: nobody expands volumes on the twin.

Source: pkg/controller/volume/expand of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.adapters.events import EventRecorder
from tonnage.adapters.informer import Delta, Informers, Key, following, key_of
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.twin.controllers.volume_plan import has, wants
from tonnage.wire.claims import PersistentVolumeClaim
from tonnage.wire.kinds import PERSISTENT_VOLUME, VOLUME_CLAIM

_WAITS: Final = "waiting for an external controller to expand this PVC"


class VolumeExpansionController:
    """Looks at a bound claim when it asks for more, or has got more."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._events = EventRecorder(api, clock, "volume_expand")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._claims = informers.of(VOLUME_CLAIM)
        self._claims.subscribe(self._changed)
        self._volumes = informers.of(PERSISTENT_VOLUME)

    async def run(self) -> None:
        """Tell until cancelled."""
        async with following(self._claims, self._volumes) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _changed(self, delta: Delta[PersistentVolumeClaim]) -> None:
        before, after = delta.before, delta.after
        if before is None or after is None or after.status.get("phase") != "Bound":
            return
        if wants(after) > wants(before) or has(after) > has(before):
            self._queue.add(key_of(after))

    async def _reconcile(self, key: Key) -> None:
        namespace, name = key
        claim = self._claims.get(name, namespace)
        volume = self._volumes.get(str(claim.spec.get("volumeName") or "")) if claim is not None else None
        if claim is None or volume is None or wants(claim) <= has(claim):
            return
        if (volume.spec.get("claimRef") or {}).get("uid") == claim.metadata.uid:
            await self._events.emit(claim, "Normal", "ExternalExpanding", _WAITS)
