"""QuotaMonitor: copies of the objects that quotas count, of those kinds alone that some quota names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from tonnage.decide.kubernetes.admission.object_charges import CLAIM
from tonnage.loop.informer import Delta, Informer, following
from tonnage.model.json import JsonObject
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.controllers.deletable_objects import Resource, built_in_kinds, custom_kind
from tonnage.wire.kinds import CUSTOM_RESOURCE, Kind
from tonnage.wire.objects import CustomResourceDefinition, Object, Service


class CountedObjects:
    """An informer per kind, begun when it is first wanted.

    `changed` is told of objects that came or may cost something else now, `synced` of kinds of which all are.
    """

    def __init__(
        self,
        api: KubernetesApi,
        clock: Clock,
        changed: Callable[[Resource, Delta[Service]], None],
        synced: Callable[[Resource], None],
    ) -> None:
        self._api = api
        self._clock = clock
        self._changed = changed
        self._on_synced = synced
        self._group: asyncio.TaskGroup | None = None
        self._informers: dict[Resource, Informer[Service]] = {}
        self._tasks: dict[Resource, asyncio.Task[None]] = {}
        self._required: set[Resource] = set()
        self._synced: set[Resource] = set()
        self._kinds = {(kind.group, kind.plural): kind for kind in built_in_kinds()}
        self._definitions = Informer(api, CUSTOM_RESOURCE, clock)
        self._definitions.subscribe(self._defined)

    async def run(self) -> None:
        """Keep the copies fresh until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._definitions.run())

    async def synced(self) -> None:
        """Return once it is known which kinds there are."""
        await self._definitions.synced()

    def want(self, resources: Iterable[Resource]) -> None:
        """Watch these kinds, too, from now on."""
        for resource in set(resources) - self._required:
            self._required.add(resource)
            self._begin(resource)

    def of(self, resource: Resource, namespace: str) -> list[JsonObject] | None:
        """The objects of a kind; None while they are not known."""
        informer = self._informers.get(resource)
        if informer is None or resource not in self._synced:
            return None
        return [_plain(obj) for obj in informer.by_index("namespace", namespace)]

    def _begin(self, resource: Resource) -> None:
        kind = self._kinds.get(resource)
        if kind is None or not kind.namespaced or self._group is None:
            return
        # Services have a spec and a status of any content, so they can stand for all kinds.
        whole = Kind(kind.group, kind.version, kind.kind, kind.plural, True, Service)
        informer = Informer(self._api, whole, self._clock)
        informer.add_index("namespace", lambda obj: [obj.metadata.namespace])
        informer.subscribe(partial(self._object_changed, resource))
        self._informers[resource] = informer
        self._tasks[resource] = self._group.create_task(self._follow(resource, informer))

    async def _follow(self, resource: Resource, informer: Informer[Service]) -> None:
        async with following(informer):
            self._synced.add(resource)
            self._on_synced(resource)

    def _object_changed(self, resource: Resource, delta: Delta[Service]) -> None:
        before, after = delta.before, delta.after
        typed = before is None or after is None or before.spec.get("type") != after.spec.get("type")
        if typed or resource == CLAIM:
            self._changed(resource, delta)

    def _defined(self, delta: Delta[CustomResourceDefinition]) -> None:
        before = custom_kind(delta.before) if delta.before is not None else None
        after = custom_kind(delta.after) if delta.after is not None else None
        if before == after:
            return
        if before is not None:
            resource = (before.group, before.plural)
            self._kinds.pop(resource, None)
            self._informers.pop(resource, None)
            self._synced.discard(resource)
            task = self._tasks.pop(resource, None)
            if task is not None:
                task.cancel()
        if after is not None:
            resource = (after.group, after.plural)
            self._kinds[resource] = after
            if resource in self._required:
                self._begin(resource)


def _plain(obj: Object) -> JsonObject:
    plain = msgspec.to_builtins(obj)
    assert isinstance(plain, dict)
    return plain
