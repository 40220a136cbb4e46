"""The store against a simple model: every watcher, from every version, sees what history shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tonnage.twin.apiserver.storage.store as store_module
from tonnage.model.errors import ApiError, GoneError
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import ChangeType
from tonnage.twin.apiserver.object_store import StaleError, TooOldError
from tonnage.twin.apiserver.reading.listing import ListQuery, page
from tonnage.twin.apiserver.reading.watching import CommittedEvent, WatchQuery, events, everything
from tonnage.twin.apiserver.resources import Registry
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.storage.store import Store
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import CONFIG_MAP
from tonnage.wire.schema import load_schema

PODS = ("", "pods")
NODES = ("", "nodes")
State = dict[str, int]
"""Name to value."""


@dataclass
class History:
    """A store, and beside it the plain truth: the state at every revision."""

    store: Store
    state: State = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.states[self.store.revision] = {}

    def write(self, name: str, value: int | None) -> None:
        """Set a pod's value; None deletes it."""
        key = ("default", name)
        read = self.store.get(PODS, key)
        if value is None:
            if read is None:
                return
            self.store.delete(PODS, key, read=read)
            self.state = {other: kept for other, kept in self.state.items() if other != name}
        else:
            obj: JsonObject = {"metadata": {"name": name, "namespace": "default"}, "value": value}
            if read is None:
                self.store.create(PODS, key, obj)
            else:
                self.store.update(PODS, key, obj, read=read)
            self.state = {**self.state, name: value}
        self.states[self.store.revision] = self.state

    def other(self) -> None:
        """Something of another resource, which moves the revision on."""
        self.store.create(NODES, ("", str(self.store.revision)), {"metadata": {}})
        self.states[self.store.revision] = self.state


def _even(obj: JsonObject) -> bool:
    value = obj["value"]
    return isinstance(value, int) and value % 2 == 0


def _all(_obj: JsonObject) -> bool:
    return True


async def _one_by_one(stream: AsyncIterator[list[CommittedEvent]]) -> AsyncIterator[CommittedEvent]:
    async for fresh in stream:
        for seen in fresh:
            yield seen


async def _replayed(
    history: History, since: int, state: State, matches: Callable[[JsonObject], bool]
) -> tuple[State, list[CommittedEvent]]:
    """`state` as a watcher from `since` brings it up to date, checking that every event makes sense."""
    state = dict(state)
    query = WatchQuery(PODS, "", matches, since, bookmarks=True, timeout_s=0)
    seen_all = []
    last = since
    async for seen in _one_by_one(events(history.store, VirtualClock(), query)):
        seen_all.append(seen)
        assert seen.revision >= last
        last = seen.revision
        if seen.stored is None:
            continue
        obj: Any = seen.stored.object
        name = obj["metadata"]["name"]
        assert obj["metadata"]["resourceVersion"] == str(seen.revision)
        match seen.type:
            case ChangeType.ADDED:
                assert name not in state
                state[name] = obj["value"]
            case ChangeType.MODIFIED:
                assert name in state
                state[name] = obj["value"]
            case ChangeType.DELETED:
                del state[name]
    return state, seen_all


WRITES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 3))),
        st.none(),
    ),
    max_size=40,
)


def _run(writes: list[tuple[str, int | None] | None], log_length: int) -> History:
    history = History(Store(log_length=log_length))
    for write in writes:
        if write is None:
            history.other()
        else:
            history.write(*write)
    return history


@given(WRITES, st.sampled_from([2, 5, 100]), st.sampled_from([everything, _all, _even]))
@settings(deadline=None)
def test_a_watch_from_any_version_ends_at_the_present_or_says_gone(
    writes: Any, log_length: int, matches: Callable[[JsonObject], bool]
) -> None:
    history = _run(writes, log_length)

    async def check() -> None:
        gone = True
        for since, before in sorted(history.states.items()):
            start = {name: value for name, value in before.items() if matches({"value": value})}
            now = {name: value for name, value in history.state.items() if matches({"value": value})}
            try:
                end, seen = await _replayed(history, since, start, matches)
            except GoneError:
                # Once a version is still known, all later ones are.
                assert gone
                continue
            gone = False
            assert end == now
            assert all(one.revision > since for one in seen)
        assert not gone

    asyncio.run(check())


@given(WRITES, st.sampled_from([2, 100]), st.integers(1, 3))
@settings(deadline=None)
def test_pages_show_one_moment_whatever_happens_between_them(
    writes: Any, log_length: int, limit: int
) -> None:
    half = len(writes) // 2
    history = _run(writes[:half], log_length)
    served = Registry(load_schema()).find("", "v1", "pods")
    assert served is not None
    wanted, token = dict(history.state), ""
    found: dict[Any, Any] = {}
    rest = iter(writes[half:])
    while True:
        try:
            one = page(history.store, served, ListQuery(limit=limit, continue_token=token))
        except GoneError:
            assert log_length == 2
            return
        found |= {stored.object["metadata"]["name"]: stored.object["value"] for stored in one.items}  # type: ignore[index,call-overload]
        token = one.continue_token
        if not token:
            break
        for write in (next(rest, None), next(rest, None), next(rest, None)):
            history.other() if write is None else history.write(*write)
    assert found == wanted


@given(WRITES)
def test_any_version_that_the_log_covers_can_be_read_again(writes: Any) -> None:
    history = _run(writes, 100)
    for revision, state in history.states.items():
        listed = history.store.list(PODS, at=revision)
        assert {one.object["metadata"]["name"]: one.object["value"] for one in listed} == state  # type: ignore[index,call-overload]


_PLACES = st.tuples(st.sampled_from(["", "a", "a-b", "aa", "b"]), st.sampled_from(["", "-", "a", "z"]))


@given(st.lists(_PLACES, max_size=30), _PLACES, st.sampled_from(["", "a", "b"]))
def test_a_part_of_a_list_is_what_sorting_everything_would_show(
    writes: list[tuple[str, str]], after: tuple[str, str], namespace: str
) -> None:
    store = Store()
    states: dict[int, set[tuple[str, str]]] = {store.revision: set()}
    for name in writes:  # what is there goes, what is not comes
        read = store.get(PODS, name)
        if read is None:
            store.create(PODS, name, {"metadata": {"namespace": name[0], "name": name[1]}})
        else:
            store.delete(PODS, name, read=read)
        states[store.revision] = states[store.revision - 1] ^ {name}
    for at, there in states.items():
        listed = store.list(PODS, namespace=namespace, at=at, after=after)
        found = [(one.object["metadata"]["namespace"], one.object["metadata"]["name"]) for one in listed]  # type: ignore[index,call-overload]
        assert found == sorted(n for n in there if n > after and (not namespace or n[0] == namespace))


async def test_a_reader_that_falls_behind_the_log_is_cut_off() -> None:
    history = History(Store(log_length=3))
    stream = _one_by_one(events(history.store, VirtualClock(), WatchQuery(PODS, "", everything, 1)))
    history.write("a", 0)
    assert (await anext(stream)).type is ChangeType.ADDED
    for value in range(20):
        history.write("a", value)
    with pytest.raises(GoneError, match=r"too old resource version: 2 \(\d+\)"):
        await anext(stream)


def test_what_was_long_ago_reads_as_it_was() -> None:
    history = History(Store())
    for value in range(400):
        history.write("a", value)
    seen = history.store.watch(PODS, 1).ready()
    assert [commit.after.object["value"] for commit in seen] == list(range(400))
    assert [commit.after.revision for commit in seen] == list(range(2, 402))


async def test_a_watch_from_a_version_that_is_yet_to_come_tells_what_comes_after_it() -> None:
    history = History(Store())
    since = history.store.revision + 1
    stream = _one_by_one(events(history.store, VirtualClock(), WatchQuery(PODS, "", everything, since)))
    coming = asyncio.ensure_future(anext(stream))
    for value in (1, 2):
        await asyncio.sleep(0)
        history.write("a", value)
    assert (await coming).revision == since + 1
    await stream.aclose()  # type: ignore[attr-defined]


async def test_of_many_watchers_all_wake_though_not_in_one_turn() -> None:
    store = Store()
    waiting = [asyncio.ensure_future(store.watch(PODS, store.revision).changed()) for _ in range(100)]
    await asyncio.sleep(0)
    store.create(PODS, ("ns", "a"), {"metadata": {"name": "a"}})
    await asyncio.sleep(0)
    assert 0 < sum(one.done() for one in waiting) < len(waiting)
    store.create(PODS, ("ns", "b"), {"metadata": {"name": "b"}})
    await asyncio.gather(*waiting)


async def test_what_is_written_while_many_watchers_rest_they_are_told_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tonnage.twin.apiserver.storage.watch_rounds._REST_S", 5e-3)
    store = Store()
    watches = [store.watch(PODS, store.revision) for _ in range(100)]

    def told() -> asyncio.Future[list[None]]:
        return asyncio.gather(*(watch.changed() for watch in watches))

    def write(name: str) -> None:
        store.create(PODS, ("ns", name), {"metadata": {"name": name}})

    for names in (["a"], ["b", "c"]):
        round_ = told()
        for name in names:
            for _ in range(10):
                await asyncio.sleep(0)
            assert not round_.done()
            write(name)
        await round_
        assert all([commit.name[1] for commit in watch.ready()] == names for watch in watches)


async def test_waiting_watchers_wake_at_a_change_and_at_a_cut() -> None:
    history = History(Store())
    stream = _one_by_one(events(history.store, VirtualClock(), WatchQuery(PODS, "", everything, 1)))
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    history.write("a", 1)
    assert (await first).type is ChangeType.ADDED
    rest = asyncio.ensure_future(_collect(stream))
    await asyncio.sleep(0)
    history.store.cut_watches()
    assert await rest == []


async def _collect(stream: Any) -> list[CommittedEvent]:
    return [seen async for seen in stream]


async def test_bookmarks_come_with_time_and_carry_the_latest_version() -> None:
    history, clock = History(Store()), VirtualClock()
    stream = _one_by_one(events(history.store, clock, WatchQuery(PODS, "", everything, 1, bookmarks=True)))
    coming = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    history.other()
    await clock.advance(61)
    seen = await coming
    assert (seen.type, seen.revision) == (ChangeType.BOOKMARK, history.store.revision)
    await stream.aclose()  # type: ignore[attr-defined]


def test_writers_that_read_something_older_are_refused() -> None:
    store = Store()
    first = store.create(PODS, ("default", "a"), {"metadata": {}})
    store.update(PODS, ("default", "a"), {"metadata": {}, "value": 1}, read=first)
    with pytest.raises(StaleError):
        store.update(PODS, ("default", "a"), {"metadata": {}}, read=first)
    with pytest.raises(StaleError):
        store.delete(PODS, ("default", "a"), read=first)
    with pytest.raises(StaleError):
        store.create(PODS, ("default", "a"), {"metadata": {}})


async def test_a_store_without_room_takes_no_new_objects_and_lets_old_ones_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a manifest with a million replicas, or a loop that makes ConfigMaps, takes the machine."""
    server = ApiServer(VirtualClock())
    api = server.local()
    body: JsonObject = {"metadata": {"name": "first"}, "data": {"text": "x" * 1000}}
    await api.create(CONFIG_MAP, body, namespace="default")
    monkeypatch.setattr(store_module, "MOST_BYTES", 10_000)
    assert server.store.full
    with pytest.raises(ApiError, match="etcdserver: mvcc: database space exceeded") as refused:
        await api.create(CONFIG_MAP, body | {"metadata": {"name": "second"}}, namespace="default")
    assert refused.value.code == 500
    longer: JsonObject = {"data": {"text": "x" * 5000}}
    with pytest.raises(ApiError, match="space exceeded"):
        await api.patch(CONFIG_MAP, "first", longer, namespace="default")
    await api.patch(CONFIG_MAP, "first", {"data": {"text": "short"}}, namespace="default")
    await api.delete(CONFIG_MAP, "first", namespace="default")
    monkeypatch.setattr(store_module, "MOST_BYTES", 1 << 30)
    await api.create(CONFIG_MAP, body, namespace="default")


def test_the_room_that_objects_take_is_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    first = store.create(PODS, ("default", "a"), {"metadata": {"name": "a"}, "text": "x" * 500})
    monkeypatch.setattr(store_module, "MOST_BYTES", len(first.json) + 1)
    second = store.update(PODS, ("default", "a"), {"metadata": {"name": "a"}, "text": "x" * 900}, read=first)
    assert store.full
    store.delete(PODS, ("default", "a"), read=second)
    assert not store.full


def test_logs_of_large_objects_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that writes a large object anew for ever keeps as much of the past as there is room for."""
    monkeypatch.setattr(store_module, "MOST_LOG_BYTES", 100_000)
    store = Store()
    read = store.create(PODS, ("default", "a"), {"metadata": {"name": "a"}, "text": "x" * 10_000})
    watch = store.watch(PODS, store.revision)
    for number in range(100):
        text = f"{number}" + "x" * 10_000
        read = store.update(PODS, ("default", "a"), {"metadata": {"name": "a"}, "text": text}, read=read)
    log = store._logs[PODS]
    assert sum(len(commit.after.json) for commit in log.commits) == log.bytes == store._log_bytes <= 100_000
    with pytest.raises(TooOldError):
        watch.ready()
    assert [stored.revision for stored in store.list(PODS)] == [read.revision]
