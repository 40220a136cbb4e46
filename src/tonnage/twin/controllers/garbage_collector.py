"""GarbageCollector: what loses its last owner goes; foreground and orphan deletions are finished.

Source: k8s.io/kubernetes/pkg/controller/garbagecollector (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.loop.events import recorder_over
from tonnage.loop.informer import Delta, Informers, following
from tonnage.loop.ownership import owner_as_json
from tonnage.loop.refusals import or_none, passing_over
from tonnage.loop.status_writes import patch_as_seen
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.well_known import FOREGROUND, ORPHAN
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.controllers.deletable_objects import EveryKind, Resource
from tonnage.wire.kinds import Kind
from tonnage.wire.objects import Object, OwnerReference


@dataclass(frozen=True, slots=True)
class Ref:
    """An object's address."""

    resource: Resource
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Owners:
    """An object's owners by what has become of them."""

    solid: tuple[OwnerReference, ...]
    dangling: tuple[OwnerReference, ...]
    waiting: tuple[OwnerReference, ...]
    """On their way out in the foreground: they go when their dependants are gone."""


class GarbageCollector:
    """Deletes dependants in the background, and finishes foreground and orphan deletions."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._events = recorder_over(api, clock, "garbage-collector-controller")
        self._queue: WorkQueue[Ref] = WorkQueue(clock)
        self._objects = EveryKind(api, clock, informers, self._changed)

    async def run(self) -> None:
        """Collect until cancelled."""
        async with following(self._objects) as group:
            group.create_task(work(self._queue, self._reconcile, workers=4))

    def _changed(self, resource: Resource, delta: Delta[Object]) -> None:
        before, after = delta.before, delta.after
        if after is None:
            if before is not None:
                self._enqueue_dependants(before.metadata.uid)
                self._enqueue_owners(before)
            return
        fresh = before is None or before.metadata.owner_references != after.metadata.owner_references
        if fresh and before is not None:
            self._enqueue_owners(before)  # who may wait for it no longer
        if (fresh and after.metadata.owner_references) or after.metadata.deletion_timestamp is not None:
            self._queue.add(_ref(resource, after))

    def _enqueue_dependants(self, uid: str) -> None:
        for resource, dependant in self._objects.owned_by(uid):
            self._queue.add(_ref(resource, dependant))

    def _enqueue_owners(self, obj: Object) -> None:
        for owner in obj.metadata.owner_references:
            owner_kind = self._objects.find(owner.api_version, owner.kind)
            if owner_kind is not None:
                resource, kind = owner_kind
                namespace = obj.metadata.namespace if kind.namespaced else ""
                self._queue.add(Ref(resource, namespace, owner.name))

    async def _reconcile(self, ref: Ref) -> None:
        kind = self._objects.kind(ref.resource)
        obj = self._objects.get(ref.resource, ref.namespace, ref.name)
        if obj is None or kind is None:
            return
        if obj.metadata.deletion_timestamp is not None:
            if ORPHAN in obj.metadata.finalizers:
                await self._orphan(kind, obj)
            elif FOREGROUND in obj.metadata.finalizers:
                await self._finish_foreground(kind, obj)
        elif obj.metadata.owner_references:
            await self._check_owners(kind, obj)

    async def _check_owners(self, kind: Kind[Object], obj: Object) -> None:
        owners = await self._owners_of(obj)
        if owners is None:
            return
        lost = {owner.uid for owner in (*owners.dangling, *owners.waiting)}
        if not lost:
            return
        await self._tell_strangers(obj, owners.dangling)
        if owners.solid:
            await self._drop_owners(kind, obj, lost)
            return
        dependants = [dependant for _, dependant in self._objects.owned_by(obj.metadata.uid)]
        if owners.waiting and any(map(_waits, dependants)):
            await self._unblock(kind, obj)
        propagation = _own_propagation(obj)
        if owners.waiting and dependants and propagation == "Background":
            propagation = "Foreground"  # the owner waits for the whole tree
        with passing_over(404, 409):
            await self._api.delete(
                kind,
                obj.metadata.name,
                namespace=obj.metadata.namespace or None,
                propagation=propagation,
                uid=obj.metadata.uid,
            )

    async def _owners_of(self, obj: Object) -> Owners | None:
        """None where an owner is of a kind that nobody serves, or that no object without a namespace has."""
        solid: list[OwnerReference] = []
        dangling: list[OwnerReference] = []
        waiting: list[OwnerReference] = []
        for reference in obj.metadata.owner_references:
            owner_kind = self._objects.find(reference.api_version, reference.kind)
            if owner_kind is None:
                return None
            if owner_kind[1].namespaced and not obj.metadata.namespace:
                await self._tell_strangers(obj, obj.metadata.owner_references)
                return None
            owner = await self._owner(obj, reference, *owner_kind)
            if owner is None:
                dangling.append(reference)
            elif _waits(owner):
                waiting.append(reference)
            else:
                solid.append(reference)
        return Owners(tuple(solid), tuple(dangling), tuple(waiting))

    async def _owner(
        self, obj: Object, reference: OwnerReference, resource: Resource, kind: Kind[Object]
    ) -> Object | None:
        """The owner as the copy has it, else as the server has it: absence is never concluded from a copy."""
        namespace = obj.metadata.namespace if kind.namespaced else ""
        copied = self._objects.get(resource, namespace, reference.name)
        if copied is not None and copied.metadata.uid == reference.uid:
            return copied
        owner = await or_none(self._api.get(kind, reference.name, namespace or None))
        return owner if owner is not None and owner.metadata.uid == reference.uid else None

    async def _tell_strangers(self, obj: Object, owners: Iterable[OwnerReference]) -> None:
        """Say of owners that are not where they would have to be that they stand in another namespace."""
        namespace = obj.metadata.namespace
        for owner in owners:
            owner_kind = self._objects.find(owner.api_version, owner.kind)
            if (
                owner_kind is None
                or not owner_kind[1].namespaced
                or not self._objects.has(owner_kind[0], owner.uid)
            ):
                continue
            where = f"namespace: {namespace}, name: {owner.name}, uid: {owner.uid}"
            shown = f"[{owner.api_version}/{owner.kind}, {where}]"
            message = f'ownerRef {shown} does not exist in namespace "{namespace}"'
            await self._events.emit(obj, "Warning", "OwnerRefInvalidNamespace", message)

    async def _drop_owners(self, kind: Kind[Object], obj: Object, uids: set[str]) -> None:
        rest: list[JsonValue] = [
            owner_as_json(owner) for owner in obj.metadata.owner_references if owner.uid not in uids
        ]
        await self._patch(kind, obj, {"ownerReferences": rest or None})

    async def _unblock(self, kind: Kind[Object], obj: Object) -> None:
        """Let no owner wait for an object, which may be one of its own owners' owners."""
        freed: list[JsonValue] = []
        for owner in obj.metadata.owner_references:
            blocks: JsonObject = {"blockOwnerDeletion": False} if owner.block_owner_deletion else {}
            freed.append({**owner_as_json(owner), **blocks})
        await self._patch(kind, obj, {"ownerReferences": freed})

    async def _finish_foreground(self, kind: Kind[Object], owner: Object) -> None:
        uid = owner.metadata.uid
        blocked = False
        for resource, dependant in self._objects.owned_by(uid):
            blocked |= any(
                reference.uid == uid and reference.block_owner_deletion
                for reference in dependant.metadata.owner_references
            )
            if dependant.metadata.deletion_timestamp is None:
                self._queue.add(_ref(resource, dependant))
        if not blocked:
            await self._drop_finalizer(kind, owner, FOREGROUND)

    async def _orphan(self, kind: Kind[Object], owner: Object) -> None:
        for resource, dependant in list(self._objects.owned_by(owner.metadata.uid)):
            dependant_kind = self._objects.kind(resource)
            if dependant_kind is not None:
                await self._drop_owners(dependant_kind, dependant, {owner.metadata.uid})
        await self._drop_finalizer(kind, owner, ORPHAN)

    async def _drop_finalizer(self, kind: Kind[Object], obj: Object, finalizer: str) -> None:
        rest: list[JsonValue] = [name for name in obj.metadata.finalizers if name != finalizer]
        await self._patch(kind, obj, {"finalizers": rest or None})

    async def _patch(self, kind: Kind[Object], obj: Object, metadata: JsonObject) -> None:
        with passing_over(404):  # a conflict is retried on a fresher copy
            await patch_as_seen(self._api, kind, obj, {"metadata": metadata})


def _ref(resource: Resource, obj: Object) -> Ref:
    return Ref(resource, obj.metadata.namespace, obj.metadata.name)


def _waits(owner: Object) -> bool:
    """Whether an owner goes when its dependants are gone."""
    return owner.metadata.deletion_timestamp is not None and FOREGROUND in owner.metadata.finalizers


def _own_propagation(obj: Object) -> str:
    if ORPHAN in obj.metadata.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in obj.metadata.finalizers else "Background"
