"""GraphBuilder: metadata of everything that can be deleted, custom kinds while they are defined."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from tonnage.loop.informer import Delta, Informer, Informers
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import CUSTOM_RESOURCE, Kind
from tonnage.wire.objects import CustomResourceDefinition, Object
from tonnage.wire.schema import load_schema

Resource = tuple[str, str]
"""(API group, plural)."""
Sees = Callable[[Resource, Delta[Object]], None]

_SKIPPED: Final = frozenset({("", "events"), ("events.k8s.io", "events")})
"""Nobody owns Events, and they are many."""


def built_in_kinds() -> Iterator[Kind[Object]]:
    """Every built-in kind that can be listed, watched and deleted, once, in its first version."""
    resources: set[Resource] = set(_SKIPPED)
    for row in load_schema().kinds:
        resource = (row.group, row.plural)
        if resource not in resources and {"list", "watch", "delete"} <= set(row.verbs):
            resources.add(resource)
            yield Kind(row.group, row.version, row.kind, row.plural, row.namespaced, Object)


def custom_kind(definition: CustomResourceDefinition) -> Kind[Object] | None:
    """The kind that a definition defines, in the version that is stored; None while it is not served."""
    spec = definition.spec
    names = spec.get("names") or {}
    versions = [v for v in spec.get("versions") or [] if v.get("served")]
    version = next((v for v in versions if v.get("storage")), versions[0] if versions else None)
    if version is None:
        return None
    return Kind(
        spec.get("group", ""),
        version.get("name", ""),
        names.get("kind", ""),
        names.get("plural", ""),
        spec.get("scope") == "Namespaced",
        Object,
    )


class EveryKind:
    """An informer per kind, with an index `owner` of the uids of owners. `sees` is told of every change.

    Copies of built-in kinds are shared; those of custom kinds come and go with their definitions.
    """

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers, sees: Sees) -> None:
        self._api = api
        self._clock = clock
        self._sees = sees
        self._kinds: dict[Resource, Kind[Object]] = {}
        self._informers: dict[Resource, Informer[Object]] = {}
        self._tasks: dict[Resource, asyncio.Task[None]] = {}
        self._definitions = Informer(api, CUSTOM_RESOURCE, clock)
        for kind in built_in_kinds():
            self._add(kind, informers.of(kind))

    async def run(self) -> None:
        """Keep all copies fresh until cancelled."""
        async with asyncio.TaskGroup() as group:
            for resource, informer in self._informers.items():
                self._tasks[resource] = group.create_task(informer.run())
            self._definitions.subscribe(lambda delta: self._definition_changed(group, delta))
            group.create_task(self._definitions.run())

    async def synced(self) -> None:
        """Return once the first lists of the built-in kinds are in."""
        await self._definitions.synced()
        for informer in list(self._informers.values()):
            await informer.synced()

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """An object as last seen, or None."""
        informer = self._informers.get(resource)
        return informer.get(name, namespace) if informer is not None else None

    def owned_by(self, uid: str) -> Iterator[tuple[Resource, Object]]:
        """Objects that name this uid as an owner."""
        for resource, informer in self._informers.items():
            for obj in informer.by_index("owner", uid):
                yield resource, obj

    def has(self, resource: Resource, uid: str) -> bool:
        """Whether an object of this uid is seen in any namespace."""
        informer = self._informers.get(resource)
        return informer is not None and any(obj.metadata.uid == uid for obj in informer)

    def kind(self, resource: Resource) -> Kind[Object] | None:
        """The kind of a resource, None when it is not served (any more)."""
        return self._kinds.get(resource)

    def find(self, api_version: str, kind: str) -> tuple[Resource, Kind[Object]] | None:
        """The kind that an owner reference means, whatever its version."""
        group = api_version.rpartition("/")[0]
        for resource, candidate in self._kinds.items():
            if candidate.group == group and candidate.kind == kind:
                return resource, candidate
        return None

    def _add(self, kind: Kind[Object], informer: Informer[Object]) -> Resource:
        resource = (kind.group, kind.plural)
        informer.add_index("owner", lambda obj: [owner.uid for owner in obj.metadata.owner_references])
        informer.subscribe(lambda delta: self._sees(resource, delta))
        self._kinds[resource] = kind
        self._informers[resource] = informer
        return resource

    def _definition_changed(self, group: asyncio.TaskGroup, delta: Delta[CustomResourceDefinition]) -> None:
        before = custom_kind(delta.before) if delta.before is not None else None
        after = custom_kind(delta.after) if delta.after is not None else None
        if before == after:
            return
        if before is not None:
            resource = (before.group, before.plural)
            self._tasks.pop(resource).cancel()
            del self._informers[resource], self._kinds[resource]
        if after is not None:
            resource = self._add(after, Informer(self._api, after, self._clock))
            self._tasks[resource] = group.create_task(self._informers[resource].run())
