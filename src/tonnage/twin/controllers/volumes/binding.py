"""PersistentVolumeController: claims get volumes that exist, and give them up when they go.

Nothing is provisioned or wiped: a volume whose claim is gone is Released, and deleted where its policy says
so and the controller manager itself can do it, which is below /tmp of hosts.

Source: pkg/controller/volume/persistentvolume of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.loop.events import recorder_over
from tonnage.loop.informer import Informers, Key, following, key_of
from tonnage.loop.status_writes import patch_as_seen
from tonnage.loop.volume_reservations import reservation
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.well_known import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    OLD_STORAGE_CLASS,
    SELECTED_NODE,
)
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.reading.volumes import class_of
from tonnage.twin.controllers.volumes.plan import (
    best_volume,
    default_class,
    driver_for,
    is_reserved,
    mismatch,
    undeletable,
)
from tonnage.twin.controllers.volumes.protection import claim_keys
from tonnage.wire.claims import PersistentVolume, PersistentVolumeClaim
from tonnage.wire.kinds import PERSISTENT_VOLUME, POD, STORAGE_CLASS, VOLUME_CLAIM

_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_IN_TREE: Final = "kubernetes.io/"
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
_RESYNC_S: Final = 15.0
"""So often waiting claims say again what they wait for."""


class VolumeBindingController:
    """Looks at a volume or a claim whenever it changes, and at waiting claims when a volume or class does."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._events = recorder_over(api, clock, "persistentvolume-controller")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._quiet: set[Key] = set()
        """Claims to look at because of something else: they find a volume or say nothing, but for `_loud`."""
        self._loud: set[Key] = set()
        self._claims = informers.of(VOLUME_CLAIM, self._claim_changed)
        self._volumes = informers.of(PERSISTENT_VOLUME, self._volume_changed)
        self._classes = informers.of(STORAGE_CLASS, lambda _key: self._wake())

        self._pods = informers.of(POD)
        self._pods.add_index("claim", claim_keys)

    async def run(self) -> None:
        """Bind until cancelled."""
        async with following(self._claims, self._volumes, self._classes, self._pods) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _claim_changed(self, key: Key) -> None:
        self._loud.add(key)
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
            if its or BIND_COMPLETED not in claim.metadata.annotations:
                self._quiet.add(key_of(claim))
                self._queue.add(key_of(claim))

    async def _reconcile(self, key: Key) -> float | None:
        namespace, name = key
        quiet = key in self._quiet and key not in self._loud
        self._quiet.discard(key)
        self._loud.discard(key)
        try:
            if not namespace:
                if (volume := self._volumes.get(name)) is not None:
                    await self._keep(volume)
            elif (claim := self._claims.get(name, namespace)) is not None:
                if BIND_COMPLETED in claim.metadata.annotations:
                    await self._keep_bound(claim)
                elif not await self._find(claim):
                    if not quiet and not await self._give_class(claim):
                        await self._tell_wait(claim)
                    return _RESYNC_S
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
                volume = await self._phase(volume, "Released")
            await self._reclaim(volume)
        elif claim.spec.get("volumeName") == volume.metadata.name:
            await self._phase(volume, "Bound")
        elif claim.spec.get("volumeName"):
            await self._unbind(volume)

    async def _reclaim(self, volume: PersistentVolume) -> None:
        """Delete a volume that nobody has any more, by its policy; drivers and provisioners see to theirs."""
        maker = volume.metadata.annotations.get(_PROVISIONED_BY) or _IN_TREE
        ours = maker.startswith(_IN_TREE) and not volume.spec.get("csi")
        if not ours or volume.spec.get("persistentVolumeReclaimPolicy") != "Delete":
            return
        why = undeletable(volume)
        if not why:
            meta = volume.metadata
            await self._api.delete(PERSISTENT_VOLUME, meta.name, uid=meta.uid)
        elif volume.status.get("phase") != "Failed":
            await self._phase(volume, "Failed", why)
            await self._events.emit(volume, "Warning", "VolumeFailedDelete", why)

    async def _unbind(self, volume: PersistentVolume) -> None:
        """Let go of a claim that has another volume by now; who reserved it by hand keeps it reserved."""
        if BOUND_BY_CONTROLLER in volume.metadata.annotations:
            patch: JsonObject = {
                "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}},
                "spec": {"claimRef": None},
            }
        else:
            patch = {"spec": {"claimRef": {"uid": None}}}
        freed = await patch_as_seen(self._api, PERSISTENT_VOLUME, volume, patch)
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
            await patch_as_seen(self._api, VOLUME_CLAIM, claim, {"status": status}, "status")
            await self._events.emit(claim, "Warning", reason, why)

    async def _find(self, claim: PersistentVolumeClaim) -> bool:
        """Bind a claim that has no volume: to the one it names, else to the best; whether there is one."""
        name = str(claim.spec.get("volumeName") or "")
        if name:
            volume = self._volumes.get(name)
            free = volume is not None and volume.spec.get("claimRef") is None
            if volume is None or (free and mismatch(volume, claim)):
                return False
            if not free and not is_reserved(volume, claim):
                return False
        else:
            volume = best_volume(claim, self._volumes, delayed=self._is_delayed(claim))
        if volume is not None:
            await self._bind(volume, claim)
        return volume is not None

    async def _give_class(self, claim: PersistentVolumeClaim) -> bool:
        """Write the class that is the default by now into a claim that names none; whether there is one."""
        if claim.spec.get("storageClassName") is not None or OLD_STORAGE_CLASS in claim.metadata.annotations:
            return False
        name = default_class(self._classes)
        if name:
            await patch_as_seen(self._api, VOLUME_CLAIM, claim, {"spec": {"storageClassName": name}})
        return bool(name)

    def _is_delayed(self, claim: PersistentVolumeClaim) -> bool:
        chosen = self._classes.get(class_of(claim.metadata, claim.spec))
        return chosen is not None and chosen.volume_binding_mode == "WaitForFirstConsumer"

    async def _tell_wait(self, claim: PersistentVolumeClaim) -> None:
        """Say what a claim waits for, or let somebody make a volume for it."""
        if name := str(claim.spec.get("volumeName") or ""):
            await self._tell_refusal(claim, name)
            return
        named = class_of(claim.metadata, claim.spec)
        chosen = self._classes.get(named) if named else None
        if self._is_delayed(claim) and SELECTED_NODE not in claim.metadata.annotations:
            await self._tell_delay(claim)
        elif not named:
            await self._events.emit(claim, "Normal", "FailedBinding", _NONE_FITS)
        elif chosen is None:
            why = f'storageclass.storage.k8s.io "{named}" not found'
            await self._events.emit(claim, "Warning", "ProvisioningFailed", why)
        elif (driver := driver_for(chosen.provisioner)).startswith(_IN_TREE):
            why = f"no volume plugin matched name: {driver}"
            await self._events.emit(claim, "Warning", "ProvisioningFailed", why)
        else:
            await self._leave_to(driver, claim)

    async def _tell_refusal(self, claim: PersistentVolumeClaim, name: str) -> None:
        volume = self._volumes.get(name)
        if volume is None:
            return
        if volume.spec.get("claimRef") is None:
            message = f'Cannot bind to requested volume "{name}": {mismatch(volume, claim)}'
            await self._events.emit(claim, "Warning", "VolumeMismatch", message)
        else:
            message = f'volume "{name}" already bound to a different claim.'
            await self._events.emit(claim, "Warning", "FailedBinding", message)

    async def _tell_delay(self, claim: PersistentVolumeClaim) -> None:
        users = self._pods.by_index("claim", "/".join(key_of(claim)))
        waiting = [pod.metadata.name for pod in users if not pod.spec.node_name]
        if waiting:
            pods = f"pod{'s' if len(waiting) > 1 else ''} {','.join(waiting)}"
            await self._events.emit(
                claim, "Normal", "WaitForPodScheduled", f"waiting for {pods} to be scheduled"
            )
        else:
            await self._events.emit(claim, "Normal", "WaitForFirstConsumer", _WAITS)

    async def _leave_to(self, provisioner: str, claim: PersistentVolumeClaim) -> None:
        """Tell a provisioner of somebody else's that a volume is wanted."""
        annotations: JsonObject = dict.fromkeys(_PROVISIONERS, provisioner)
        if not annotations.items() <= claim.metadata.annotations.items():
            claim = await patch_as_seen(
                self._api, VOLUME_CLAIM, claim, {"metadata": {"annotations": annotations}}
            )
        await self._events.emit(claim, "Normal", "ExternalProvisioning", _EXTERNAL.format(provisioner))

    async def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Write into both that they are each other's, the volume first; what is written already stays."""
        meta = claim.metadata
        patch = reservation(volume, claim)
        if patch is not None:
            volume = await patch_as_seen(self._api, PERSISTENT_VOLUME, volume, patch)
        await self._phase(volume, "Bound")
        if claim.spec.get("volumeName") != volume.metadata.name or BIND_COMPLETED not in meta.annotations:
            by_us = {} if claim.spec.get("volumeName") else {BOUND_BY_CONTROLLER: "yes"}
            notes: JsonObject = {BIND_COMPLETED: "yes", **by_us}
            spec: JsonObject = {"volumeName": volume.metadata.name}
            claim = await patch_as_seen(
                self._api, VOLUME_CLAIM, claim, {"metadata": {"annotations": notes}, "spec": spec}
            )
        status: JsonObject = {"phase": "Bound", "accessModes": volume.spec.get("accessModes")}
        if claim.status.get("phase") != "Bound":
            status["capacity"] = volume.spec.get("capacity")  # Later others may know it better.
            if attributes := volume.spec.get("volumeAttributesClassName"):
                status["currentVolumeAttributesClassName"] = attributes
        if not status.items() <= claim.status.items():
            await patch_as_seen(self._api, VOLUME_CLAIM, claim, {"status": status}, "status")

    async def _phase(self, volume: PersistentVolume, phase: str, why: str = "") -> PersistentVolume:
        if volume.status.get("phase") == phase:
            return volume
        status: JsonObject = {"phase": phase, "message": why or None}
        return await patch_as_seen(self._api, PERSISTENT_VOLUME, volume, {"status": status}, "status")
