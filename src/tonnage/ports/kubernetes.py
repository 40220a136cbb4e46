"""The Kubernetes API, as the loops ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from tonnage.model.json import JsonObject, JsonValue
from tonnage.wire.kinds import Kind
from tonnage.wire.objects import Object

T = TypeVar("T", bound=Object)


class PatchType(StrEnum):
    """How a patch body is read; the value is its content type. What is applied wins over other managers."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class ChangeType(StrEnum):
    """What a watch says happened. Bookmarks carry only a resource version."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One event of a watch. A deletion carries the object as it was last."""

    type: ChangeType
    object: T


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A consistent list and the resource version to watch from."""

    items: list[T]
    resource_version: str


class KubernetesReader(Protocol):
    """The Kubernetes API, as far as it is read. Objects are read as the kind's Struct, written as JSON.

    Every method raises ApiError with the server's own code, reason and message when the server refuses, and
    ClusterError when it cannot be reached. For namespaced kinds only `list` and `watch` take None as
    `namespace`: all of them. Selectors are in kubectl's syntax.
    """

    @property
    def server_ahead_s(self) -> float:
        """How far the server's clock is ahead of this machine's, by its last answer; 0 before the first."""
        ...

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """The object. Raises ApiError 404."""
        ...

    async def list(
        self,
        kind: Kind[T],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        keep: Callable[[T], T] | None = None,
    ) -> Listing[T]:
        """All matching objects, in pages under the hood, as one consistent list.

        `keep` makes of each what is kept of it, before the next page is read.
        """
        ...

    def watch(
        self,
        kind: Kind[T],
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent[T]]:
        """Every change after a version, bookmarks too; the server ends it. Raises GoneError: list again."""
        ...

    async def dry_run_create(self, kind: Kind[T], body: JsonObject, *, namespace: str | None = None) -> T:
        """The object as the server would store it, which it does not. Raises ApiError as `create` does."""
        ...


class KubernetesApi(KubernetesReader, Protocol):
    """The same, with what changes objects."""

    async def create(self, kind: Kind[T], body: JsonObject | T, *, namespace: str | None = None) -> T:
        """The object as stored. Raises ApiError 409 AlreadyExists, 422 Invalid."""
        ...

    async def replace(
        self, kind: Kind[T], body: JsonObject, *, namespace: str | None = None, subresource: str = ""
    ) -> T:
        """PUT of the whole object. Raises ApiError 409 Conflict when its resourceVersion is stale."""
        ...

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: JsonValue,
        *,
        namespace: str | None = None,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
    ) -> T:
        """The object after the patch."""
        ...

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        *,
        namespace: str | None = None,
        grace_period_s: int | None = None,
        propagation: str = "Background",
        uid: str | None = None,
    ) -> None:
        """Ask for deletion; with `uid`, only if the object still is that one. Raises ApiError 404, 409."""
        ...

    async def create_subresource(
        self, kind: Kind[T], name: str, subresource: str, body: JsonObject, *, namespace: str | None = None
    ) -> JsonObject:
        """The answer to a POST to a subresource, such as a pod's `binding` or `eviction`."""
        ...
