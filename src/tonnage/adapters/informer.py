"""A local, always fresh copy of a collection: list, watch, resume, list again after 410.

Stands on the Kubernetes port alone, so that the real world and the twin share it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from tonnage.adapters.ports import ChangeType, Clock, KubernetesApi
from tonnage.model.errors import ClusterError, GoneError
from tonnage.wire.kinds import Kind
from tonnage.wire.objects import Object

T = TypeVar("T", bound=Object)
Key = tuple[str, str]
"""(namespace, name); the namespace is empty for cluster-scoped kinds."""

_RETRY_S: Final = (0.05, 0.2, 1.0, 5.0)


def key_of(obj: Object) -> Key:
    """(namespace, name) of an object."""
    return obj.metadata.namespace, obj.metadata.name


class Informer(Generic[T]):
    """Objects of one kind by key. `on_change(key)` is called after every change that was applied."""

    def __init__(
        self,
        api: KubernetesApi,
        kind: Kind[T],
        clock: Clock,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        on_change: Callable[[Key], None] = lambda _key: None,
    ) -> None:
        self._api = api
        self._kind = kind
        self._clock = clock
        self._namespace = namespace
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._on_change = on_change
        self._objects: dict[Key, T] = {}
        self._synced = asyncio.Event()

    def get(self, name: str, namespace: str = "") -> T | None:
        """The object as last seen, or None."""
        return self._objects.get((namespace, name))

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    async def synced(self) -> None:
        """Return once the first list is in."""
        await self._synced.wait()

    async def run(self) -> None:
        """Keep the copy fresh until cancelled. An unreachable server is retried; the copy stays as it was."""
        failures = 0
        version = ""
        while True:
            try:
                if not version:
                    version = await self._relist()
                async for change in self._api.watch(
                    self._kind, resource_version=version, namespace=self._namespace, **self._selectors
                ):
                    failures = 0
                    version = change.object.metadata.resource_version
                    if change.type is not ChangeType.BOOKMARK:
                        self._apply(change.type, change.object)
            except GoneError:
                version = ""
            except ClusterError:
                await self._clock.sleep(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
                failures += 1

    async def _relist(self) -> str:
        listing = await self._api.list(self._kind, namespace=self._namespace, **self._selectors)
        fresh = {key_of(item): item for item in listing.items}
        stale = self._objects
        self._objects = fresh
        self._synced.set()
        for key in stale.keys() | fresh.keys():
            before, after = stale.get(key), fresh.get(key)
            if (
                before is None
                or after is None
                or before.metadata.resource_version != after.metadata.resource_version
            ):
                self._on_change(key)
        return listing.resource_version

    def _apply(self, change: ChangeType, obj: T) -> None:
        key = key_of(obj)
        if change is ChangeType.DELETED:
            self._objects.pop(key, None)
        else:
            self._objects[key] = obj
        self._on_change(key)
