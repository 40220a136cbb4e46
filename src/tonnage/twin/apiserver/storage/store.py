"""The cluster's objects in memory: one revision counter, a log of commits per resource, reads of the past.

The log is what watches read: a watch is a position in it, so a slow reader costs no memory and is cut off
with 410 once the log has moved past it. Undoing the log gives any list as it was at a revision that the log
still covers; that is what paging stands on.

Objects are never changed after they were stored: whoever changes one copies it first.

With a journal a commit counts at once for writers, who build on it, but is shown to nobody until it is on
disk: `durable_object`, lists at `durable` and watches have it only then. A journal that refuses undoes all
that it lacks.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from tonnage.decide.kubernetes.api.encoding.field_order import ObjectShapes
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import ChangeType
from tonnage.twin.apiserver.object_store import Commit, Name, Resource, StaleError, Stored, TooOldError
from tonnage.twin.apiserver.storage.group_commit import GroupCommit
from tonnage.twin.apiserver.storage.watch_rounds import Rounds
from tonnage.wire.schema import load_schema

LOG_LENGTH: Final = 4096
"""Commits kept per resource, at least."""
MOST_BYTES: Final = 256 << 20
"""Of JSON text of all objects together; in memory they take some six times that."""
MOST_LOG_BYTES: Final = 128 << 20
"""Of JSON text of all logs together: then the largest gives up its older half."""
_WARM: Final = 256
"""Commits of a resource, the last, whose objects are at hand; of older ones there is the text."""


class _Log:
    """Commits of one resource, oldest first. Positions count from the first commit ever made."""

    __slots__ = ("bytes", "commits", "covers_from", "dropped", "length", "rounds")

    def __init__(self, length: int, revision: int) -> None:
        self.length = length
        self.bytes = 0
        self.commits: list[Commit] = []
        self.dropped = 0
        self.covers_from = revision
        self.rounds = Rounds()

    def append(self, commit: Commit, on_disk: int) -> None:
        self.commits.append(commit)
        self.bytes += len(commit.after.json)
        if len(self.commits) > _WARM:
            _cool(self.commits[-_WARM - 1])
        if len(self.commits) > 2 * self.length:
            self.forget(len(self.commits) - self.length, on_disk)

    def forget(self, old: int, on_disk: int) -> None:
        """Drop so many of the oldest commits, unless some of them may still be undone."""
        if old and (last := self.commits[old - 1].after.revision) <= on_disk:
            self.bytes -= sum(len(commit.after.json) for commit in self.commits[:old])
            self.covers_from = last
            self.dropped += old
            del self.commits[:old]

    def undo(self) -> None:
        self.bytes -= len(self.commits.pop().after.json)

    def position_after(self, revision: int) -> int:
        if revision < self.covers_from:
            raise TooOldError(revision, self.covers_from)
        return self.dropped + bisect_right(self.commits, revision, key=lambda commit: commit.after.revision)


def _cool(commit: Commit) -> None:
    """Shed what a commit alone may hold: what it replaced or removed."""
    if commit.before is not None:
        commit.before.shed()
    if commit.type is ChangeType.DELETED:
        commit.after.shed()


class Journal(Protocol):
    """What keeps commits for a later life of the server."""

    async def keep(self, commits: Sequence[Commit]) -> None:
        """Put them on disk, all or none. Raises ApiError when it cannot."""
        ...


class Store:
    """All objects; `restored` are those of an earlier life, whose last revision was `revision`."""

    def __init__(
        self,
        *,
        log_length: int = LOG_LENGTH,
        journal: Journal | None = None,
        restored: Iterable[tuple[Resource, Name, Stored]] = (),
        revision: int = 1,
    ) -> None:
        self.revision = self._born = revision
        self.shapes = ObjectShapes(load_schema())
        self._log_length = log_length
        self.compacted = 0
        """Lists as they were before this revision are gone; watches may still begin there."""
        self._disk = None if journal is None else GroupCommit(journal.keep, self._shown, self._undo)
        self._unkept = self._disk.pending if self._disk is not None else []
        self._objects: dict[Resource, dict[Name, Stored]] = {}
        for resource, name, stored in restored:
            self._objects.setdefault(resource, {})[name] = stored
        self._names = {resource: sorted(objects) for resource, objects in self._objects.items()}
        self._logs: dict[Resource, _Log] = {}
        self._log_bytes = 0
        self._bytes = sum(len(entry.json) for objects in self._objects.values() for entry in objects.values())
        self.cuts = 0
        """How often all watches were cut."""

    @property
    def durable(self) -> int:
        """The last revision that is on disk; without a journal the last of all."""
        return self._unkept[0].after.revision - 1 if self._unkept else self.revision

    @property
    def full(self) -> bool:
        """Whether the objects take all the room that there is: none may be made, and none may grow."""
        return self._bytes >= MOST_BYTES

    async def on_disk(self) -> None:
        """Return once all that is stored by now is on disk. Raises ApiError when it was undone instead."""
        if self._disk is not None:
            await self._disk.settled()

    def get(self, resource: Resource, name: Name) -> Stored | None:
        """The object, or None."""
        return self._objects.get(resource, {}).get(name)

    def durable_object(self, resource: Resource, name: Name) -> Stored | None:
        """The object as it is on disk, which is all that a reader may know of."""
        for commit in self._unkept:
            if commit.name == name and commit.resource == resource:
                return commit.before
        return self.get(resource, name)

    def list(
        self, resource: Resource, *, namespace: str = "", at: int | None = None, after: Name | None = None
    ) -> list[Stored]:
        """Objects in the order of their names, `after` a name, now or `at` a revision. Raises TooOldError."""
        objects, names = self._objects.get(resource, {}), self._names.get(resource, [])
        if at is not None and at < self.revision:
            if at < self.compacted:
                raise TooOldError(at, self.compacted)
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
        """Every commit after revision `since`, or from now on. Raises TooOldError."""
        log = self._log(resource)
        return Watch(self, log, log.position_after(since), since)

    def cut_watches(self) -> None:
        """End every watch that is open now."""
        self.cuts += 1
        for log in self._logs.values():
            log.rounds.tell()

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
        head = metadata if isinstance(metadata, dict) else {}
        stamped: JsonObject = {**head, "resourceVersion": str(revision)}
        return Stored(self.shapes.shaped({**obj, "metadata": stamped}), revision)

    def _commit(self, commit: Commit) -> None:
        self.revision = commit.after.revision
        if self._disk is not None:
            self._disk.add(commit)
        names = self._names.setdefault(commit.resource, [])
        if commit.type is ChangeType.DELETED:
            del self._objects[commit.resource][commit.name]
            del names[bisect_left(names, commit.name)]
        else:
            self._objects[commit.resource][commit.name] = commit.after
            if commit.before is None:
                insort(names, commit.name)
        self._count(commit)
        log = self._log(commit.resource)
        before = log.bytes
        log.append(commit, self.durable)
        self._log_bytes += log.bytes - before
        if self._log_bytes > MOST_LOG_BYTES:
            self._shorten()
        if self._disk is None:
            log.rounds.tell()

    def _count(self, commit: Commit, sign: int = 1) -> None:
        """Keep books on the room that objects take."""
        before = len(commit.before.json) if commit.before is not None else 0
        after = len(commit.after.json) if commit.type is not ChangeType.DELETED else 0
        self._bytes += sign * (after - before)

    def _shorten(self) -> None:
        """Have the largest log forget its older half; who still reads there is told 410 and lists anew."""
        log = max(self._logs.values(), key=lambda log: log.bytes)
        before = log.bytes
        log.forget((len(log.commits) + 1) // 2, self.durable)
        self._log_bytes += log.bytes - before

    def _shown(self, commits: Sequence[Commit]) -> None:
        """Let watchers have what is on disk now."""
        for resource in {commit.resource for commit in commits}:
            self._log(resource).rounds.tell()

    def _undo(self, commits: Sequence[Commit]) -> None:
        """Be as the disk is, which lacks the last commits."""
        self.revision = self.durable
        for commit in reversed(commits):
            objects, names = self._objects[commit.resource], self._names[commit.resource]
            if commit.before is None:
                del objects[commit.name]
                del names[bisect_left(names, commit.name)]
            else:
                objects[commit.name] = commit.before
                if commit.type is ChangeType.DELETED:
                    insort(names, commit.name)
            self._count(commit, -1)
            self._log_bytes -= len(commit.after.json)
            self._log(commit.resource).undo()

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
        self._changed: asyncio.Future[None] | None = None
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
        end = self._end()
        fresh = log.commits[self._position - log.dropped : end - log.dropped]
        self._position = end
        self.revision = self._store.durable
        return fresh

    def _end(self) -> int:
        """The position after the last commit that is on disk."""
        log, on_disk = self._log, self._store.durable
        return (
            log.position_after(on_disk) if on_disk < self._store.revision else log.dropped + len(log.commits)
        )

    async def changed(self) -> None:
        """Return when there is something to read, the watch was cut, or somebody rings."""
        if self.cut or self._position < self._end():
            return
        self._changed = asyncio.get_running_loop().create_future()
        await self._log.rounds.news(self._changed)

    def ring(self, _cause: object = None) -> None:
        """Have `changed` return."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
