"""What the API server's parts ask of the store: the port in which it and the server's faces meet.

Objects are never changed after they were stored: whoever changes one copies it first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from tonnage.decide.kubernetes.api.encoding.field_order import ObjectShapes
from tonnage.decide.kubernetes.api.encoding.go_json import go_json
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import ChangeType

T = TypeVar("T")
Resource = tuple[str, str]
"""(API group, plural); the group is empty for core kinds."""
Name = tuple[str, str]
"""(namespace, name); the namespace is empty for cluster-scoped kinds. Lists are in this order."""


class Stored:
    """An object as it is stored, with its JSON text, made once for all its readers."""

    __slots__ = ("_object", "_typed", "json", "revision")

    def __init__(self, obj: JsonObject, revision: int, json: bytes = b"") -> None:
        self._object: JsonObject | None = obj
        self.revision = revision
        self.json = json or go_json(obj)
        self._typed: tuple[object, ...] = ()

    @property
    def object(self) -> JsonObject:
        """The object, which nobody changes."""
        if self._object is None:
            self._object = msgspec.json.decode(self.json)
        return self._object

    def shed(self) -> None:
        """Keep the text alone, a fraction of the memory: hardly anybody asks any more."""
        self._object, self._typed = None, ()

    def as_type(self, struct: type[T]) -> T:
        """The object as a Struct (or one that adds to it) that all readers share: nobody changes it."""
        for cached in self._typed:
            if isinstance(cached, struct):
                return cached
        typed = msgspec.convert(self.object, struct)
        self._typed = (*self._typed, typed)
        return typed


@dataclass(frozen=True, slots=True)
class Commit:
    """One change: what was (None: created) and what is. A deletion holds the last object at its revision."""

    type: ChangeType
    resource: Resource
    name: Name
    before: Stored | None
    after: Stored


class TooOldError(Exception):
    """The log no longer covers the revision asked for."""

    def __init__(self, requested: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {requested} ({oldest})")


class StaleError(Exception):
    """The object is not the one that the writer read: changed, gone, or there already."""


class ObjectWatch(Protocol):
    """A position in the commits of a resource."""

    revision: int
    """Up to which commits have been read."""

    @property
    def cut(self) -> bool:
        """Whether the server has ended this watch."""
        ...

    def ready(self) -> list[Commit]:
        """What has been committed since the last call. Raises TooOldError for a reader that fell behind."""
        ...

    async def changed(self) -> None:
        """Return when there is something to read, the watch was cut, or somebody rings."""
        ...

    def ring(self, _cause: object = None) -> None:
        """Have `changed` return."""
        ...


class ObjectStore(Protocol):
    """All objects under one revision counter. A commit counts at once to writers, to readers once on disk."""

    revision: int
    """The last of all."""
    compacted: int
    """Lists as they were before this revision are gone; watches may still begin there."""
    shapes: ObjectShapes

    @property
    def durable(self) -> int:
        """The last revision that is on disk; without a journal the last of all."""
        ...

    @property
    def full(self) -> bool:
        """Whether the objects take all the room that there is: none may be made, and none may grow."""
        ...

    async def on_disk(self) -> None:
        """Return once all that is stored by now is on disk. Raises ApiError when it was undone instead."""
        ...

    def get(self, resource: Resource, name: Name) -> Stored | None:
        """The object, or None."""
        ...

    def durable_object(self, resource: Resource, name: Name) -> Stored | None:
        """The object as it is on disk, which is all that a reader may know of."""
        ...

    def list(
        self, resource: Resource, *, namespace: str = "", at: int | None = None, after: Name | None = None
    ) -> list[Stored]:
        """Objects in the order of their names, `after` a name, now or `at` a revision. Raises TooOldError."""
        ...

    def resources(self) -> Iterator[Resource]:
        """The resources of which there are objects."""
        ...

    def create(self, resource: Resource, name: Name, obj: JsonObject) -> Stored:
        """Store a new object under the next revision. Raises StaleError when the name is taken."""
        ...

    def update(self, resource: Resource, name: Name, obj: JsonObject, *, read: Stored) -> Stored:
        """Replace what was `read`. Raises StaleError when it has been replaced or deleted since."""
        ...

    def delete(
        self, resource: Resource, name: Name, *, read: Stored, last: JsonObject | None = None
    ) -> Stored:
        """Remove what was `read`; watchers see it as `last`, by default as it was. Raises StaleError."""
        ...

    def watch(self, resource: Resource, since: int) -> ObjectWatch:
        """Every commit after revision `since`, or from now on. Raises TooOldError."""
        ...

    def cut_watches(self) -> None:
        """End every watch that is open now."""
        ...
