"""Watches: commits seen through a selector, with bookmarks, and the present state first where asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.adapters.ports import ChangeType, Clock
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.statuses import expired
from tonnage.twin.apiserver.store import Commit, Resource, Store, Stored, TooOldError, Watch

Matches = Callable[[JsonObject], bool]

BOOKMARK_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One event of a watch. A bookmark has no object; `initial_end` marks the end of the present state."""

    type: ChangeType
    stored: Stored | None
    revision: int
    initial_end: bool = False


@dataclass(frozen=True, slots=True)
class WatchQuery:
    """What to watch. Without `since` the present state comes first, as ADDED events."""

    resource: Resource
    namespace: str
    matches: Matches
    since: int | None
    bookmarks: bool = False
    initial_end: bool = False
    timeout_s: float | None = None


async def events(store: Store, clock: Clock, query: WatchQuery) -> AsyncIterator[Seen]:
    """Every event until the timeout or a cut. Raises GoneError when its start is, or becomes, too old."""
    if query.since is None:
        watch = store.watch(query.resource, store.kept)
        for seen in _present(store, query):
            yield seen
    else:
        try:
            watch = store.watch(query.resource, query.since)
        except TooOldError as error:
            raise expired(str(error)) from None
    end = None if query.timeout_s is None else clock.monotonic() + query.timeout_s
    bookmark_at = clock.monotonic() + BOOKMARK_S
    alarm: asyncio.Task[None] | None = None
    try:
        while True:
            for seen in _ready(watch, query):
                yield seen
            now = clock.monotonic()
            over = end is not None and now >= end
            if query.bookmarks and (over or now >= bookmark_at):
                yield Seen(ChangeType.BOOKMARK, None, watch.revision)
                bookmark_at = now + BOOKMARK_S
            if over or watch.cut:
                return
            if alarm is None or alarm.done():
                alarm = _alarm(clock, now, end, bookmark_at if query.bookmarks else None)
            await _first_of(watch.changed(), alarm)
    finally:
        if alarm is not None:
            alarm.cancel()


def _alarm(clock: Clock, now: float, *moments: float | None) -> asyncio.Task[None] | None:
    """A task that ends at the first of the moments."""
    first = min((moment for moment in moments if moment is not None), default=None)
    if first is None:
        return None
    return asyncio.get_running_loop().create_task(_sleep(clock, max(first - now, 0.0)))


async def _sleep(clock: Clock, seconds: float) -> None:
    await clock.sleep(seconds)


async def _first_of(changed: asyncio.Future[None], alarm: asyncio.Task[None] | None) -> None:
    try:
        await asyncio.wait([changed] if alarm is None else [changed, alarm], return_when="FIRST_COMPLETED")
    finally:
        changed.cancel()


def _ready(watch: Watch, query: WatchQuery) -> Iterator[Seen]:
    try:
        commits = watch.ready()
    except TooOldError as error:
        raise expired(str(error)) from None
    for commit in commits:
        if not query.namespace or commit.name[0] == query.namespace:
            seen = _through(commit, query.matches)
            if seen is not None:
                yield seen


def _through(commit: Commit, matches: Matches) -> Seen | None:
    """What a watcher who sees only matching objects is told."""
    revision = commit.after.revision
    before = commit.before is not None and matches(commit.before.object)
    after = commit.type is not ChangeType.DELETED and matches(commit.after.object)
    if before and not after:
        if commit.type is ChangeType.DELETED or commit.before is None:
            return Seen(ChangeType.DELETED, commit.after, revision)
        return Seen(ChangeType.DELETED, _at_revision(commit.before, revision), revision)
    if after:
        return Seen(ChangeType.MODIFIED if before else ChangeType.ADDED, commit.after, revision)
    return None


def _at_revision(stored: Stored, revision: int) -> Stored:
    metadata = stored.object.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    return Stored({**stored.object, "metadata": {**known, "resourceVersion": str(revision)}}, revision)


def _present(store: Store, query: WatchQuery) -> list[Seen]:
    seen = [
        Seen(ChangeType.ADDED, stored, stored.revision)
        for stored in store.list(query.resource, namespace=query.namespace, at=store.kept)
        if query.matches(stored.object)
    ]
    if query.initial_end:
        seen.append(Seen(ChangeType.BOOKMARK, None, store.kept, initial_end=True))
    return seen
