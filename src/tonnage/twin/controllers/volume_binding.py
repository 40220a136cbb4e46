"""Claims get volumes that somebody made, and give them up when they go.

Nothing is provisioned and nothing is deleted or wiped: a volume whose claim is gone is Released.

Source: pkg/controller/volume/persistentvolume of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from typing import Final, TypeVar

from tonnage.adapters.events import EventRecorder
from tonnage.adapters.informer import Informers, Key, following
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.twin.controllers.volume_plan import best_volume, class_of, is_reserved, mismatch
from tonnage.wire.claims import PersistentVolume, PersistentVolumeClaim
from tonnage.wire.kinds import PERSISTENT_VOLUME, STORAGE_CLASS, VOLUME_CLAIM, Kind

_BOUND: Final = "pv.kubernetes.io/bind-completed"
_BY_US: Final = "pv.kubernetes.io/bound-by-controller"
_PROVISIONERS: Final = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)
_NONE_FITS: Final = "no persistent volumes available for this claim and no storage class is set"
_WAITS: Final = "waiting for first consumer to be created before binding"
_EXTERNAL: Final = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and "
    "correctly registered."
)
_AGAIN_S: Final = 1.0
_Kept = TypeVar("_Kept", PersistentVolume, PersistentVolumeClaim)


class VolumeBindingController:
    """Looks at a volume or a claim whenever it changes, and at waiting claims when a volume or class does."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._events = EventRecorder(api, clock, "persistentvolume-controller")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._claims = informers.of(VOLUME_CLAIM, self._claim_changed)
        self._volumes = informers.of(PERSISTENT_VOLUME, self._volume_changed)
        self._classes = informers.of(STORAGE_CLASS, lambda _key: self._wake())

    async def run(self) -> None:
        """Bind until cancelled."""
        async with following(self._claims, self._volumes, self._classes) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _claim_changed(self, key: Key) -> None:
        self._queue.add(key)
        for volume in self._volumes:
            ref = volume.spec.get("claimRef") or {}
            if (ref.get("namespace"), ref.get("name")) == key:
                self._queue.add(("", volume.metadata.name))

    def _volume_changed(self, key: Key) -> None:
        self._queue.add(key)
        self._wake(key[1])

    def _wake(self, volume: str = "") -> None:
        """Look again at the claims that wait, and at those of a volume."""
        for claim in self._claims:
            its = volume and claim.spec.get("volumeName") == volume
            if its or _BOUND not in claim.metadata.annotations:
                self._queue.add((claim.metadata.namespace, claim.metadata.name))

    async def _reconcile(self, key: Key) -> float | None:
        namespace, name = key
        try:
            if not namespace:
                if (volume := self._volumes.get(name)) is not None:
                    await self._keep(volume)
            elif (claim := self._claims.get(name, namespace)) is not None:
                if _BOUND in claim.metadata.annotations:
                    await self._keep_bound(claim)
                else:
                    await self._find(claim)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            return _AGAIN_S  # our copy is old
        return None

    async def _keep(self, volume: PersistentVolume) -> None:
        """A volume's phase by its claim."""
        ref = volume.spec.get("claimRef")
        if not isinstance(ref, dict) or not ref.get("uid"):
            await self._phase(volume, "Available")
            return
        claim = self._claims.get(str(ref.get("name")), str(ref.get("namespace")))
        if claim is None or claim.metadata.uid != ref["uid"]:
            if volume.status.get("phase") not in ("Released", "Failed"):
                await self._phase(volume, "Released")
        elif claim.spec.get("volumeName") == volume.metadata.name:
            await self._phase(volume, "Bound")
        elif claim.spec.get("volumeName"):
            await self._unbind(volume)

    async def _unbind(self, volume: PersistentVolume) -> None:
        """Let go of a claim that has another volume by now; who reserved it by hand keeps it reserved."""
        if _BY_US in volume.metadata.annotations:
            patch: JsonObject = {"metadata": {"annotations": {_BY_US: None}}, "spec": {"claimRef": None}}
        else:
            patch = {"spec": {"claimRef": {"uid": None}}}
        freed = await self._patch(PERSISTENT_VOLUME, volume, patch)
        await self._phase(freed, "Available")

    async def _keep_bound(self, claim: PersistentVolumeClaim) -> None:
        """A claim that has had a volume: is it still there, and this one's?"""
        name = str(claim.spec.get("volumeName") or "")
        volume = self._volumes.get(name) if name else None
        if volume is None:
            why = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            await self._lose(claim, "ClaimLost", why)
        elif volume.spec.get("claimRef") is None or is_reserved(volume, claim):
            await self._bind(volume, claim)
        else:
            why = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._lose(claim, "ClaimMisbound", why)

    async def _lose(self, claim: PersistentVolumeClaim, reason: str, why: str) -> None:
        if claim.status.get("phase") != "Lost":
            status: JsonObject = {"phase": "Lost", "accessModes": None, "capacity": None}
            await self._patch(VOLUME_CLAIM, claim, {"status": status}, "status")
            await self._events.emit(claim, "Warning", reason, why)

    async def _find(self, claim: PersistentVolumeClaim) -> None:
        """A volume for a claim that has none: the one it names, else the best."""
        name = str(claim.spec.get("volumeName") or "")
        if name:
            volume = self._volumes.get(name)
            if volume is None:
                return
            if volume.spec.get("claimRef") is None and (why := mismatch(volume, claim)):
                said = f'Cannot bind to requested volume "{name}": {why}'
                await self._events.emit(claim, "Warning", "VolumeMismatch", said)
            elif volume.spec.get("claimRef") is None or is_reserved(volume, claim):
                await self._bind(volume, claim)
            else:
                said = f'volume "{name}" already bound to a different claim.'
                await self._events.emit(claim, "Warning", "FailedBinding", said)
            return
        named = class_of(claim)
        chosen = self._classes.get(named) if named else None
        delayed = chosen is not None and chosen.volume_binding_mode == "WaitForFirstConsumer"
        volume = best_volume(claim, self._volumes, delayed=delayed)
        if volume is not None:
            await self._bind(volume, claim)
        elif delayed:
            await self._events.emit(claim, "Normal", "WaitForFirstConsumer", _WAITS)
        elif not named:
            await self._events.emit(claim, "Normal", "FailedBinding", _NONE_FITS)
        elif chosen is None:
            why = f'storageclass.storage.k8s.io "{named}" not found'
            await self._events.emit(claim, "Warning", "ProvisioningFailed", why)
        elif not chosen.provisioner.startswith("kubernetes.io/"):
            await self._leave_to(chosen.provisioner, claim)

    async def _leave_to(self, provisioner: str, claim: PersistentVolumeClaim) -> None:
        """Tell a provisioner of somebody else's that a volume is wanted."""
        wanted: JsonObject = dict.fromkeys(_PROVISIONERS, provisioner)
        if not wanted.items() <= claim.metadata.annotations.items():
            claim = await self._patch(VOLUME_CLAIM, claim, {"metadata": {"annotations": wanted}})
        await self._events.emit(claim, "Normal", "ExternalProvisioning", _EXTERNAL.format(provisioner))

    async def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Write into both that they are each other's, the volume first; what is written already stays."""
        meta = claim.metadata
        ref = volume.spec.get("claimRef") or {}
        if ref.get("uid") != meta.uid:
            whole: JsonObject = {
                "apiVersion": VOLUME_CLAIM.api_version,
                "kind": VOLUME_CLAIM.kind,
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            }
            patch: JsonObject = {"spec": {"claimRef": whole}}
            if not ref:
                patch["metadata"] = {"annotations": {_BY_US: "yes"}}
            volume = await self._patch(PERSISTENT_VOLUME, volume, patch)
        await self._phase(volume, "Bound")
        if claim.spec.get("volumeName") != volume.metadata.name or _BOUND not in meta.annotations:
            by_us = {} if claim.spec.get("volumeName") else {_BY_US: "yes"}
            notes: JsonObject = {_BOUND: "yes", **by_us}
            spec: JsonObject = {"volumeName": volume.metadata.name}
            claim = await self._patch(VOLUME_CLAIM, claim, {"metadata": {"annotations": notes}, "spec": spec})
        status: JsonObject = {
            "phase": "Bound",
            "accessModes": volume.spec.get("accessModes"),
            "capacity": volume.spec.get("capacity"),
        }
        if not status.items() <= claim.status.items():
            await self._patch(VOLUME_CLAIM, claim, {"status": status}, "status")

    async def _phase(self, volume: PersistentVolume, phase: str) -> None:
        if volume.status.get("phase") != phase:
            status: JsonObject = {"phase": phase, "message": None}
            await self._patch(PERSISTENT_VOLUME, volume, {"status": status}, "status")

    async def _patch(
        self, kind: Kind[_Kept], found: _Kept, patch: JsonObject, subresource: str = ""
    ) -> _Kept:
        """Change an object if it is still as it was seen. Raises ApiError 409 if it is not."""
        meta = patch.get("metadata")
        version: JsonObject = {"resourceVersion": found.metadata.resource_version}
        whole: JsonObject = {**patch, "metadata": {**(meta if isinstance(meta, dict) else {}), **version}}
        namespace = found.metadata.namespace or None
        return await self._api.patch(
            kind, found.metadata.name, whole, namespace=namespace, subresource=subresource
        )
