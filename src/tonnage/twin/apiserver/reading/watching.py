"""Watches: commits seen through a selector, with bookmarks, and the present state first where asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import ChangeType
from tonnage.twin.apiserver.object_store import (
    Commit,
    ObjectStore,
    ObjectWatch,
    Resource,
    Stored,
    TooOldError,
)
from tonnage.twin.apiserver.statuses import expired, too_new

Matches = Callable[[JsonObject], bool]


def everything(_obj: JsonObject) -> bool:
    """What a watch or a list without selectors shows."""
    return True


BOOKMARK_S: Final = 60.0
_BEFORE_END_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class CommittedEvent:
    """One event of a watch. A bookmark has no object; `initial_end` marks the end of the present state."""

    type: ChangeType
    stored: Stored | None
    revision: int
    initial_end: bool = False


@dataclass(frozen=True, slots=True)
class WatchQuery:
    """What to watch. With `present_first` what is there comes first, as ADDED events."""

    resource: Resource
    namespace: str
    matches: Matches
    since: int
    present_first: bool = False
    bookmarks: bool = False
    timeout_s: float | None = None


async def events(store: ObjectStore, clock: Clock, query: WatchQuery) -> AsyncIterator[list[CommittedEvent]]:
    """Every event, with all that are there by then, until the timeout or a cut.

    Raises:
        ApiError: its start is, or becomes, too old (410); or what comes first is yet to come (504).
    """
    watch = _begun(store, query)
    if query.present_first and (present := _present(store, query)):
        yield present
    end = None if query.timeout_s is None else clock.monotonic() + query.timeout_s
    bookmark_at = _bookmark_at(clock.monotonic(), end) if query.bookmarks else None
    alarm: asyncio.Task[None] | None = None
    try:
        while True:
            if fresh := _ready(watch, query):
                yield fresh
            now = clock.monotonic()
            over = end is not None and now >= end
            if bookmark_at is not None and now >= bookmark_at:
                yield [CommittedEvent(ChangeType.BOOKMARK, None, watch.revision)]
                bookmark_at = _bookmark_at(now, end)
            if over or watch.cut:
                return
            if alarm is None or alarm.done():
                alarm = _alarm(clock, now, end, bookmark_at)
                if alarm is not None:
                    alarm.add_done_callback(watch.ring)
            await watch.changed()
    finally:
        if alarm is not None:
            alarm.cancel()


def _begun(store: ObjectStore, query: WatchQuery) -> ObjectWatch:
    if query.present_first and query.since > store.durable:
        raise too_new(query.since, store.durable)
    try:
        return store.watch(query.resource, store.durable if query.present_first else query.since)
    except TooOldError as error:
        raise expired(str(error)) from None


def _bookmark_at(now: float, end: float | None) -> float | None:
    """When the next bookmark is due: a last one comes shortly before the watch ends."""
    due = now + BOOKMARK_S if end is None else min(now + BOOKMARK_S, end - _BEFORE_END_S)
    return due if due > now else None


def _alarm(clock: Clock, now: float, *moments: float | None) -> asyncio.Task[None] | None:
    """A task that ends at the first of the moments."""
    first = min((moment for moment in moments if moment is not None), default=None)
    if first is None:
        return None
    return asyncio.get_running_loop().create_task(_sleep(clock, max(first - now, 0.0)))


async def _sleep(clock: Clock, seconds: float) -> None:
    await clock.sleep(seconds)


def _ready(watch: ObjectWatch, query: WatchQuery) -> list[CommittedEvent]:
    try:
        commits = watch.ready()
    except TooOldError as error:
        raise expired(str(error)) from None
    if commits and commits[0].after.revision <= query.since:
        # Who waits for a version that is yet to come is told nothing of what comes before it.
        commits = [commit for commit in commits if commit.after.revision > query.since]
    if query.namespace:
        commits = [commit for commit in commits if commit.name[0] == query.namespace]
    if query.matches is everything:
        return [CommittedEvent(commit.type, commit.after, commit.after.revision) for commit in commits]
    return [event for commit in commits if (event := _through(commit, query.matches)) is not None]


def _through(commit: Commit, matches: Matches) -> CommittedEvent | None:
    """What a watcher who sees only matching objects is told."""
    revision = commit.after.revision
    before = commit.before is not None and matches(commit.before.object)
    after = commit.type is not ChangeType.DELETED and matches(commit.after.object)
    if before and not after:
        if commit.type is ChangeType.DELETED or commit.before is None:
            return CommittedEvent(ChangeType.DELETED, commit.after, revision)
        return CommittedEvent(ChangeType.DELETED, _at_revision(commit.before, revision), revision)
    if after:
        return CommittedEvent(ChangeType.MODIFIED if before else ChangeType.ADDED, commit.after, revision)
    return None


def _at_revision(stored: Stored, revision: int) -> Stored:
    metadata = stored.object.get("metadata")
    head = metadata if isinstance(metadata, dict) else {}
    return Stored({**stored.object, "metadata": {**head, "resourceVersion": str(revision)}}, revision)


def _present(store: ObjectStore, query: WatchQuery) -> list[CommittedEvent]:
    events = [
        CommittedEvent(ChangeType.ADDED, stored, stored.revision)
        for stored in store.list(query.resource, namespace=query.namespace, at=store.durable)
        if query.matches(stored.object)
    ]
    if query.bookmarks:
        events.append(CommittedEvent(ChangeType.BOOKMARK, None, store.durable, initial_end=True))
    return events
