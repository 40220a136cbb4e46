"""SchedulerVolumeBinder: the volumes that a placed pod's claims get, and the wait until they are bound.

Source: kube-scheduler 1.35 plugin volumebinding (Reserve, PreBind).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import msgspec

from tonnage.decide.kubernetes.volume_matching import matched
from tonnage.loop.informer import Delta, Informer, Informers, key_of
from tonnage.loop.status_writes import patch_as_seen
from tonnage.loop.volume_reservations import reservation
from tonnage.model.errors import ClusterError, Problem
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping
from tonnage.model.kubernetes.cluster import Node, Pod, Snapshot
from tonnage.model.kubernetes.volumes import Volume
from tonnage.model.kubernetes.well_known import BIND_COMPLETED, SELECTED_NODE
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.reading.volumes import class_of
from tonnage.wire import kinds
from tonnage.wire import objects as w
from tonnage.wire.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from tonnage.wire.kinds import Kind

_BY_HAND: Final = "kubernetes.io/no-provisioner"
_EVERY_S: Final = 1.0
_LONGEST_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class VolumeChoice:
    """A claim, and the volume that it gets; None: one is to be made for the node."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None


class VolumeBinder:
    """Chooses volumes for claims that wait for their pod's node. `changed` is told of every change."""

    def __init__(
        self,
        api: KubernetesApi,
        clock: Clock,
        informers: Informers,
        changed: Callable[[Delta[w.Object]], None],
    ) -> None:
        self._api = api
        self._clock = clock
        self._claims = informers.of(kinds.VOLUME_CLAIM)
        self._volumes = informers.of(kinds.PERSISTENT_VOLUME)
        self._classes = informers.of(kinds.STORAGE_CLASS)
        drivers: list[Kind[Any]] = [
            kinds.CSI_NODE, kinds.CSI_DRIVER, kinds.STORAGE_CAPACITY, kinds.VOLUME_ATTACHMENT
        ]  # fmt: skip
        others: list[Informer[Any]] = [informers.of(kind) for kind in drivers]
        self.copies: list[Informer[Any]] = [self._claims, self._volumes, self._classes, *others]
        for copy in self.copies:
            copy.subscribe(changed)
        self._assumed: dict[str, PersistentVolume] = {}
        """By name: volumes that were chosen, as they will show it."""

    def surroundings(self) -> Iterable[w.Object]:
        """What decisions about pods with volumes stand on."""
        missing = {class_of(claim.metadata, claim.spec) for claim in self._claims} - {
            obj.metadata.name for obj in self._classes
        }
        # Nothing waits for a class that is not there.
        none = (StorageClass(metadata=w.ObjectMeta(name=name)) for name in sorted(missing - {""}))
        objects: Iterable[w.Object] = chain.from_iterable(self.copies)
        current = (self._assumed.get(obj.metadata.name, obj) if _is_volume(obj) else obj for obj in objects)
        return (*current, *none)

    def choose(self, pod: Pod, node: Node, snapshot: Snapshot) -> tuple[VolumeChoice, ...] | None:
        """The volumes of the claims that are still to be met on this node; None when there are not enough."""
        names = {volume.claim for volume in pod.volumes}
        own = (claim for claim in snapshot.volume_claims if claim.namespace == pod.namespace)
        unmet = [claim for claim in own if claim.name in names and not claim.volume]
        free: defaultdict[str, list[Volume]] = defaultdict(list)
        for volume in snapshot.volumes:
            free[volume.storage_class].append(volume)
        met = matched((claim for claim in unmet if not claim.node), free, node)
        chosen: list[VolumeChoice] = []
        for unmet_claim in unmet:
            claim = self._claims.get(unmet_claim.name, unmet_claim.namespace)
            volume_object = self._volumes.get(met[unmet_claim].name) if unmet_claim in met else None
            if claim is None or (volume_object is None and self._is_by_hand(claim)):
                return None
            chosen.append(VolumeChoice(claim, volume_object))
        for choice in chosen:
            if choice.volume is not None and (reserved := reservation(choice.volume, choice.claim)):
                spec = {**choice.volume.spec, **mapping(reserved, "spec")}
                assumed = msgspec.structs.replace(choice.volume, spec=spec)
                self._assumed[assumed.metadata.name] = assumed
        return tuple(chosen)

    async def bind(
        self, choices: tuple[VolumeChoice, ...], pod: Pod, node: str, stands: Callable[[], bool]
    ) -> None:
        """Write what was chosen, and return once all claims are bound.

        Raises ClusterError, also when the pod no longer `stands`.
        """
        try:
            for choice in choices:
                await self._write(choice, node)
            end = self._clock.monotonic() + _LONGEST_S
            while choices and self._clock.monotonic() < end:
                await self._clock.sleep(_EVERY_S)
                if not stands():
                    raise _unbound(f'pod does not exist any more: pod "{pod.name}" not found')
                claims = [self._now(choice) for choice in choices]
                if all(BIND_COMPLETED in claim.metadata.annotations for claim in claims):
                    return
            if choices:
                raise _unbound("context deadline exceeded")
        finally:
            for choice in choices:
                if choice.volume is not None:
                    self._assumed.pop(choice.volume.metadata.name, None)

    def _now(self, choice: VolumeChoice) -> PersistentVolumeClaim:
        """The claim as it is now. Raises ClusterError."""
        namespace, name = key_of(choice.claim)
        claim = self._claims.get(name, namespace)
        if claim is None:
            action = "check binding" if choice.volume is not None else "check provisioning pvc"
            raise _unbound(f'failed to {action}: persistentvolumeclaims "{namespace}/{name}" not found')
        return claim

    async def _write(self, choice: VolumeChoice, node: str) -> None:
        claim, volume = choice.claim, choice.volume
        if volume is not None:
            patch = reservation(volume, claim)
            if patch is not None:
                await patch_as_seen(self._api, kinds.PERSISTENT_VOLUME, volume, patch)
        elif claim.metadata.annotations.get(SELECTED_NODE) != node:
            chosen: JsonObject = {"metadata": {"annotations": {SELECTED_NODE: node}}}
            await patch_as_seen(self._api, kinds.VOLUME_CLAIM, claim, chosen)

    def _is_by_hand(self, claim: PersistentVolumeClaim) -> bool:
        chosen = self._classes.get(class_of(claim.metadata, claim.spec))
        return chosen is None or chosen.provisioner == _BY_HAND


def _is_volume(obj: w.Object) -> bool:
    return isinstance(obj, PersistentVolume)


def _unbound(why: str) -> ClusterError:
    return ClusterError(Problem(f"binding volumes: {why}"))
