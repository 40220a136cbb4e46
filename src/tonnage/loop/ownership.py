"""ControllerRefManager: whose objects are whose: controller reference, adoption by selector, release.

What a selector takes is decided elsewhere: a controller hands in how its owners select.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tonnage.loop.informer import Delta, Key, key_of
from tonnage.loop.refusals import or_none
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import Kind
from tonnage.wire.objects import Object, OwnerReference

T = TypeVar("T", bound=Object)
OwnerT = TypeVar("OwnerT", bound=Object)
Labels = Mapping[str, str]


def controller_of(obj: Object) -> OwnerReference | None:
    """The one owner that manages the object."""
    return next((owner for owner in obj.metadata.owner_references if owner.controller), None)


def controller_reference(owner: Object, kind: Kind[T]) -> JsonObject:
    """The reference with which `owner`, of this kind, manages what it makes."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


@dataclass(frozen=True, slots=True)
class Claims(Generic[T]):
    """What a controller owns, what it should take (orphans that match) and what it should let go."""

    owned: list[T]
    adopt: list[T]
    release: list[T]


def claims_of(owner: OwnerT, selects: Callable[[OwnerT, Labels], bool], candidates: Iterable[T]) -> Claims[T]:
    """Sort the objects of the owner's namespace. Objects of other controllers are in none of the lists.

    An object on its way out is not adopted, and an owner on its way out adopts nothing.
    """
    claims: Claims[T] = Claims([], [], [])
    for candidate in candidates:
        controller = controller_of(candidate)
        selected = selects(owner, candidate.metadata.labels)
        if controller is None:
            gone = candidate.metadata.deletion_timestamp or owner.metadata.deletion_timestamp
            if selected and not gone:
                claims.adopt.append(candidate)
        elif controller.uid == owner.metadata.uid:
            if selected or owner.metadata.deletion_timestamp:
                claims.owned.append(candidate)
            else:
                claims.release.append(candidate)
    return claims


class Ownership(Generic[OwnerT, T]):
    """Carries out the claims of owners of one kind on objects of another.

    `selects` says whether an owner's selector takes an object with these labels. What is adopted gets the
    `finalizer`, if there is one.
    """

    def __init__(
        self,
        api: KubernetesApi,
        owner_kind: Kind[OwnerT],
        kind: Kind[T],
        selects: Callable[[OwnerT, Labels], bool],
        *,
        finalizer: str = "",
    ) -> None:
        self._finalizer = finalizer
        self._api = api
        self._owner_kind = owner_kind
        self._kind = kind
        self._selects = selects

    def concerned(self, delta: Delta[T], owners: Iterable[OwnerT]) -> Iterator[Key]:
        """The owners that a change concerns: the object's controller, or else all whose selector takes it."""
        for obj in (delta.before, delta.after):
            if obj is None:
                continue
            namespace, controller = obj.metadata.namespace, controller_of(obj)
            if controller is not None:
                if controller.kind == self._owner_kind.kind:
                    yield namespace, controller.name
                continue
            for owner in owners:
                if owner.metadata.namespace == namespace and self._selects(owner, obj.metadata.labels):
                    yield key_of(owner)

    async def settle(self, owner: OwnerT, candidates: Iterable[T]) -> list[T]:
        """The objects that the owner has after adoption and release.

        Raises ClusterError. An object that vanished or changed meanwhile is left for the next time.
        """
        claims = claims_of(owner, self._selects, candidates)
        owned = list(claims.owned)
        adopted = [await self._adopt(owner, orphan) for orphan in claims.adopt]
        owned.extend(obj for obj in adopted if obj is not None)
        for stray in claims.release:
            rest = [ref for ref in stray.metadata.owner_references if ref.uid != owner.metadata.uid]
            await self._set_owners(stray, [owner_as_json(ref) for ref in rest])
        return owned

    async def _adopt(self, owner: OwnerT, orphan: T) -> T | None:
        fresh = await self._api.get(self._owner_kind, owner.metadata.name, owner.metadata.namespace or None)
        if fresh.metadata.uid != owner.metadata.uid or fresh.metadata.deletion_timestamp:
            return None  # the copy that we decided on is out of date
        refs = [owner_as_json(ref) for ref in orphan.metadata.owner_references]
        held = {*orphan.metadata.finalizers, self._finalizer} - {""} if self._finalizer else set()
        reference = controller_reference(owner, self._owner_kind)
        return await self._set_owners(orphan, [*refs, reference], sorted(held))

    async def _set_owners(self, obj: T, owners: list[JsonObject], finalizers: Sequence[str] = ()) -> T | None:
        patch: JsonObject = {
            "metadata": {
                "uid": obj.metadata.uid,
                "resourceVersion": obj.metadata.resource_version,
                "ownerReferences": list(owners) or None,
                **({"finalizers": list(finalizers)} if finalizers else {}),
            }
        }
        name, namespace = obj.metadata.name, obj.metadata.namespace or None
        return await or_none(
            self._api.patch(self._kind, name, patch, namespace=namespace), codes=(404, 409, 422)
        )


def owner_as_json(owner: OwnerReference) -> JsonObject:
    """An owner reference as it stands in an object."""
    reference: JsonObject = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    if owner.controller:
        reference["controller"] = True
    if owner.block_owner_deletion:
        reference["blockOwnerDeletion"] = True
    return reference
