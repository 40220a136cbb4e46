"""The volumes of a pod that is placed: which its claims get, and the wait until they are bound.

Source: kube-scheduler 1.35 plugin volumebinding (Reserve, PreBind).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from tonnage.adapters.informer import Informers, key_of
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.decide.cluster.filters import volumes as volume_filter
from tonnage.decide.cluster.volume_matching import matched
from tonnage.model.cluster import Node, Pod, Snapshot
from tonnage.model.json import JsonObject
from tonnage.model.volumes import Volume
from tonnage.twin.controllers.volume_plan import (
    BOUND,
    SELECTED_NODE,
    class_of,
    reservation,
)
from tonnage.twin.controllers.writing import patch_as_seen
from tonnage.wire import kinds
from tonnage.wire import objects as w
from tonnage.wire.claims import PersistentVolume, PersistentVolumeClaim, StorageClass

PLUGINS: Final = frozenset((volume_filter.NAME, volume_filter.LIMITS, volume_filter.ZONE))
_BY_HAND: Final = "kubernetes.io/no-provisioner"
_EVERY_S: Final = 1.0
_LONGEST_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Choice:
    """A claim, and the volume that it gets; None: one is to be made for the node."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None


class VolumeBinder:
    """Chooses volumes for claims that wait for their pod's node. `changed` is told of every change."""

    def __init__(
        self, api: KubernetesApi, clock: Clock, informers: Informers, changed: Callable[[], None]
    ) -> None:
        self._api = api
        self._clock = clock
        self._claims = informers.of(kinds.VOLUME_CLAIM)
        self._volumes = informers.of(kinds.PERSISTENT_VOLUME)
        self._classes = informers.of(kinds.STORAGE_CLASS)
        self.copies = (self._claims, self._volumes, self._classes)
        for copy in self.copies:
            copy.subscribe(lambda _delta: changed())
        self._assumed: set[str] = set()
        """Volumes that were chosen and do not show it yet."""

    def surroundings(self) -> Iterable[w.Object]:
        """What decisions about pods with volumes stand on."""
        missing = {class_of(claim) for claim in self._claims} - {one.metadata.name for one in self._classes}
        # Nothing waits for a class that is not there.
        none = (StorageClass(metadata=w.ObjectMeta(name=name)) for name in sorted(missing - {""}))
        return (*self._claims, *self._volumes, *self._classes, *none)

    def choose(self, pod: Pod, node: Node, snapshot: Snapshot) -> tuple[Choice, ...] | None:
        """The volumes of the claims that are still to be met on this node; None when there are not enough."""
        names = {volume.claim for volume in pod.volumes}
        mine = (claim for claim in snapshot.volume_claims if claim.namespace == pod.namespace)
        unmet = [claim for claim in mine if claim.name in names and not claim.volume]
        free: defaultdict[str, list[Volume]] = defaultdict(list)
        for volume in snapshot.volumes:
            if volume.name not in self._assumed:
                free[volume.storage_class].append(volume)
        met = matched((claim for claim in unmet if not claim.node), free, node)
        chosen: list[Choice] = []
        for wanted in unmet:
            claim = self._claims.get(wanted.name, wanted.namespace)
            found = self._volumes.get(met[wanted].name) if wanted in met else None
            if claim is None or (found is None and self._is_by_hand(claim)):
                return None
            chosen.append(Choice(claim, found))
        for choice in chosen:
            if choice.volume is not None:
                self._assumed.add(choice.volume.metadata.name)
        return tuple(chosen)

    async def bind(self, choices: tuple[Choice, ...], node: str, stands: Callable[[], bool]) -> bool:
        """Write what was chosen, and return once all claims are bound; False when that comes to nothing.

        It does when the pod no longer `stands`. Raises ClusterError.
        """
        try:
            for choice in choices:
                await self._write(choice, node)
            end = self._clock.monotonic() + _LONGEST_S
            while stands() and self._clock.monotonic() < end:
                await self._clock.sleep(_EVERY_S)
                found = [self._claims.get(key_of(one.claim)[1], key_of(one.claim)[0]) for one in choices]
                if any(claim is None for claim in found):
                    return False
                if all(claim is not None and BOUND in claim.metadata.annotations for claim in found):
                    return stands()
            return False
        finally:
            for choice in choices:
                if choice.volume is not None:
                    self._assumed.discard(choice.volume.metadata.name)

    async def _write(self, choice: Choice, node: str) -> None:
        claim, volume = choice.claim, choice.volume
        if volume is not None:
            patch = reservation(volume, claim)
            if patch is not None:
                await patch_as_seen(self._api, kinds.PERSISTENT_VOLUME, volume, patch)
        elif claim.metadata.annotations.get(SELECTED_NODE) != node:
            chosen: JsonObject = {"metadata": {"annotations": {SELECTED_NODE: node}}}
            await patch_as_seen(self._api, kinds.VOLUME_CLAIM, claim, chosen)

    def _is_by_hand(self, claim: PersistentVolumeClaim) -> bool:
        chosen = self._classes.get(class_of(claim))
        return chosen is None or chosen.provisioner == _BY_HAND
