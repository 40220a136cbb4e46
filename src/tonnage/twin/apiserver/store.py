"""The cluster's objects in memory: one revision counter, a log of commits per resource, reads of the past.

The log is what watches read: a watch is a position in it, so a slow reader costs no memory and is cut off
with 410 once the log has moved past it. Undoing the log gives any list as it was at a revision that the log
still covers; that is what paging stands on.

Objects are never changed after they were stored: whoever changes one copies it first.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from tonnage.adapters.ports import ChangeType
from tonnage.model.json import JsonObject

Resource = tuple[str, str]
"""(API group, plural); the group is empty for core kinds."""
Name = tuple[str, str]
"""(namespace, name); the namespace is empty for cluster-scoped kinds. Lists are in this order."""

LOG_LENGTH: Final = 4096
"""Commits kept per resource, at least."""


class Stored:
    """An object as it is stored, with its JSON text, made once for all its readers."""

    __slots__ = ("json", "object", "revision")

    def __init__(self, obj: JsonObject, revision: int) -> None:
        self.object = obj
        self.revision = revision
        self.json = msgspec.json.encode(obj)


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

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")


class StaleError(Exception):
    """The object is not the one that the writer read: changed, gone, or there already."""


class _Log:
    """Commits of one resource, oldest first. Positions count from the first commit ever made."""

    __slots__ = ("commits", "covers_from", "dropped", "length", "waiting")

    def __init__(self, length: int, revision: int) -> None:
        self.length = length
        self.commits: list[Commit] = []
        self.dropped = 0
        self.covers_from = revision
        self.waiting: set[asyncio.Future[None]] = set()

    def append(self, commit: Commit) -> None:
        self.commits.append(commit)
        if len(self.commits) > 2 * self.length:
            old = len(self.commits) - self.length
            self.covers_from = self.commits[old - 1].after.revision
            self.dropped += old
            del self.commits[:old]
        self.wake()

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def forget(self, future: asyncio.Future[None]) -> None:
        self.waiting.discard(future)

    def position_after(self, revision: int) -> int:
        if revision < self.covers_from:
            raise TooOldError(revision, self.covers_from)
        return self.dropped + bisect_right(self.commits, revision, key=lambda commit: commit.after.revision)


class Store:
    """All objects. `journal` sees every commit before it is visible: the seam for keeping state on disk."""

    def __init__(
        self, *, log_length: int = LOG_LENGTH, journal: Callable[[Commit], None] = lambda _commit: None
    ) -> None:
        self.revision = self._born = 1
        self._log_length = log_length
        self._journal = journal
        self._objects: dict[Resource, dict[Name, Stored]] = {}
        self._names: dict[Resource, list[Name]] = {}
        self._logs: dict[Resource, _Log] = {}
        self._cuts = 0

    def get(self, resource: Resource, name: Name) -> Stored | None:
        """The object, or None."""
        return self._objects.get(resource, {}).get(name)

    def list(
        self, resource: Resource, *, namespace: str = "", at: int | None = None, after: Name | None = None
    ) -> list[Stored]:
        """Objects in the order of their names, `after` a name, now or `at` a revision. Raises TooOldError."""
        objects, names = self._objects.get(resource, {}), self._names.get(resource, [])
        if at is not None and at < self.revision:
            objects = self._as_of(resource, at)
            names = sorted(objects)
        first = bisect_left(names, (namespace, "")) if namespace else 0
        last = bisect_left(names, (f"{namespace}\0", "")) if namespace else len(names)
        if after is not None:
            first = max(first, bisect_right(names, after))
        return [objects[name] for name in names[first:last]]

    def resources(self) -> Iterator[Resource]:
        """The resources of which there are objects."""
        return (resource for resource, objects in list(self._objects.items()) if objects)

    def create(self, resource: Resource, name: Name, obj: JsonObject) -> Stored:
        """Store a new object under the next revision. Raises StaleError when the name is taken."""
        objects = self._objects.setdefault(resource, {})
        if name in objects:
            raise StaleError
        commit = Commit(ChangeType.ADDED, resource, name, None, self._stamped(obj))
        self._commit(commit)
        return commit.after

    def update(self, resource: Resource, name: Name, obj: JsonObject, *, read: Stored) -> Stored:
        """Replace what was `read`. Raises StaleError when it has been replaced or deleted since."""
        self._expect(resource, name, read)
        commit = Commit(ChangeType.MODIFIED, resource, name, read, self._stamped(obj))
        self._commit(commit)
        return commit.after

    def delete(
        self, resource: Resource, name: Name, *, read: Stored, last: JsonObject | None = None
    ) -> Stored:
        """Remove what was `read`; watchers see it as `last`, by default as it was. Raises StaleError."""
        self._expect(resource, name, read)
        commit = Commit(ChangeType.DELETED, resource, name, read, self._stamped(last or read.object))
        self._commit(commit)
        return commit.after

    def watch(self, resource: Resource, since: int) -> Watch:
        """Every commit after revision `since`. Raises TooOldError, also for a revision yet to come."""
        if since > self.revision:
            # A client of an earlier life of this server: its revision means nothing, so it lists again.
            raise TooOldError(since, self.revision)
        log = self._log(resource)
        return Watch(self, log, log.position_after(since), since)

    def cut_watches(self) -> None:
        """End every watch that is open now."""
        self._cuts += 1
        for log in self._logs.values():
            log.wake()

    @property
    def cuts(self) -> int:
        """How often all watches were cut."""
        return self._cuts

    def _log(self, resource: Resource) -> _Log:
        log = self._logs.get(resource)
        if log is None:
            log = self._logs[resource] = _Log(self._log_length, self._born)
        return log

    def _expect(self, resource: Resource, name: Name, read: Stored) -> None:
        if self.get(resource, name) is not read:
            raise StaleError

    def _stamped(self, obj: JsonObject) -> Stored:
        revision = self.revision + 1
        metadata = obj.get("metadata")
        known = metadata if isinstance(metadata, dict) else {}
        return Stored({**obj, "metadata": {**known, "resourceVersion": str(revision)}}, revision)

    def _commit(self, commit: Commit) -> None:
        self._journal(commit)
        self.revision = commit.after.revision
        names = self._names.setdefault(commit.resource, [])
        if commit.type is ChangeType.DELETED:
            del self._objects[commit.resource][commit.name]
            del names[bisect_left(names, commit.name)]
        else:
            self._objects[commit.resource][commit.name] = commit.after
            if commit.before is None:
                insort(names, commit.name)
        self._log(commit.resource).append(commit)

    def _as_of(self, resource: Resource, revision: int) -> dict[Name, Stored]:
        log = self._log(resource)
        first = log.position_after(revision) - log.dropped
        objects = dict(self._objects.get(resource, {}))
        for commit in reversed(log.commits[first:]):
            if commit.before is None:
                objects.pop(commit.name, None)
            else:
                objects[commit.name] = commit.before
        return objects


class Watch:
    """A position in a resource's log."""

    def __init__(self, store: Store, log: _Log, position: int, since: int) -> None:
        self._store = store
        self._log = log
        self._position = position
        self._cuts = store.cuts
        self.revision = since

    @property
    def cut(self) -> bool:
        """Whether the server has ended this watch."""
        return self._store.cuts != self._cuts

    def ready(self) -> list[Commit]:
        """What has been committed since the last call. Raises TooOldError for a reader that fell behind."""
        log = self._log
        if self._position < log.dropped:
            raise TooOldError(self.revision, log.covers_from)
        fresh = log.commits[self._position - log.dropped :]
        self._position = log.dropped + len(log.commits)
        self.revision = self._store.revision
        return fresh

    def changed(self) -> asyncio.Future[None]:
        """Done when there is something to read, or the watch was cut. Cancel it when it is not awaited."""
        future = asyncio.get_running_loop().create_future()
        if self.cut or self._position < self._log.dropped + len(self._log.commits):
            future.set_result(None)
        else:
            self._log.waiting.add(future)
            future.add_done_callback(self._log.forget)
        return future
