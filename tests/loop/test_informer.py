from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.loop.informer import Delta, Informer, Informers, Key, key_of
from tonnage.model.errors import ApiError, Bug, ClusterError, GoneError, Problem
from tonnage.ports.kubernetes import ChangeType, KubernetesApi, Listing, WatchEvent
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import CONFIG_MAP, Kind
from tonnage.wire.objects import ConfigMap, Object, ObjectMeta


@dataclass
class BadDay:
    """What goes wrong with the next watches: how many events pass, then which error (None: a clean end)."""

    events: int
    error: ClusterError | None = None


@dataclass
class FlakyApi:
    """List and watch over a full history of ConfigMaps, with bad days; `oldest` is what compaction left."""

    objects: dict[str, ConfigMap] = field(default_factory=dict)
    history: list[WatchEvent[ConfigMap]] = field(default_factory=list)
    oldest: int = 0
    bad_days: list[BadDay] = field(default_factory=list)
    lists: int = 0
    watched_from: list[str] = field(default_factory=list)
    grown: asyncio.Event = field(default_factory=asyncio.Event)
    silent: bool = False
    type: type[ConfigMap] = ConfigMap

    def tell(self, change: ChangeType, obj: ConfigMap) -> None:
        obj.metadata.resource_version = str(len(self.history) + 1)
        self.history.append(WatchEvent(change, obj))
        self.grown.set()
        self.grown = asyncio.Event()

    def put(self, name: str, value: str, uid: str = "") -> None:
        old = self.objects.get(name)
        uid = old.metadata.uid if old else uid or f"uid-{len(self.history)}"
        new = self.type(metadata=ObjectMeta(name=name, namespace="ns", uid=uid), data={"value": value})
        self.objects[name] = new
        self.tell(ChangeType.MODIFIED if old else ChangeType.ADDED, new)

    def remove(self, name: str) -> None:
        if (old := self.objects.pop(name, None)) is not None:
            self.tell(ChangeType.DELETED, ConfigMap(metadata=ObjectMeta(
                name=name, namespace="ns", uid=old.metadata.uid), data=old.data))  # fmt: skip

    def bookmark(self) -> None:
        self.tell(ChangeType.BOOKMARK, ConfigMap())

    async def list(
        self,
        kind: Kind[ConfigMap],
        keep: Callable[[ConfigMap], ConfigMap] = lambda listed: listed,
        **_scope: Any,
    ) -> Listing[ConfigMap]:
        self.lists += 1
        return Listing([keep(obj) for obj in self.objects.values()], str(len(self.history)))

    async def watch(
        self, kind: Kind[ConfigMap], *, resource_version: str, **_scope: Any
    ) -> AsyncIterator[WatchEvent[ConfigMap]]:
        self.watched_from.append(resource_version)
        at = int(resource_version)
        if at < self.oldest:
            raise GoneError
        day = self.bad_days.pop(0) if self.bad_days else None
        left = day.events if day else -1
        while True:
            while at < len(self.history) and not self.silent:
                if left == 0:
                    break
                left -= 1
                change = self.history[at]
                at += 1
                yield change
            if left == 0:
                assert day is not None
                if day.error is not None:
                    raise day.error
                return
            await self.grown.wait()


class Fixture:
    """An informer over a flaky API, with what it told."""

    def __init__(
        self,
        field_selector: str = "",
        economise: Callable[[ConfigMap | None, ConfigMap], ConfigMap] | None = None,
    ) -> None:
        self.api = FlakyApi()
        self.clock = VirtualClock(settle_passes=24)
        self.keys: list[Key] = []
        self.deltas: list[Delta[ConfigMap]] = []
        self.informer: Informer[ConfigMap] = Informer(
            cast(KubernetesApi, self.api),
            CONFIG_MAP,
            self.clock,
            field_selector=field_selector,
            on_change=self.keys.append,
            economise=economise,
        )
        self.informer.subscribe(self.deltas.append)
        self.task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Fixture:
        self.task = asyncio.create_task(self.informer.run())
        await self.clock.settle()
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self.task is not None
        assert not self.task.done(), self.task
        self.task.cancel()

    def values(self) -> dict[str, str]:
        return {obj.metadata.name: obj.data["value"] for obj in self.informer}


async def test_changes_after_the_first_list_arrive_by_watch() -> None:
    fixture = Fixture()
    fixture.api.put("a", "1")
    async with fixture:
        await fixture.informer.synced()
        fixture.api.put("b", "2")
        fixture.api.put("a", "3")
        fixture.api.remove("b")
        await fixture.clock.settle()
        assert fixture.values() == {"a": "3"}
        assert fixture.keys == [("ns", name) for name in ("a", "b", "a", "b")]
        assert fixture.api.lists == 1


async def test_what_is_kept_of_an_object_may_be_made_of_its_last_state() -> None:

    def kept(before: ConfigMap | None, after: ConfigMap) -> ConfigMap:
        last = "nothing" if before is None else before.data["value"]
        return ConfigMap(metadata=after.metadata, data={"value": f"{after.data['value']} after {last}"})

    fixture = Fixture(economise=kept)
    fixture.api.put("listed", "0")
    async with fixture:
        await fixture.informer.synced()
        fixture.api.put("a", "1")
        await fixture.clock.settle()
        fixture.api.put("a", "2")
        await fixture.clock.settle()
        assert fixture.values() == {"listed": "0 after nothing", "a": "2 after 1 after nothing"}


async def test_a_cut_watch_resumes_from_the_last_version_without_a_list() -> None:
    fixture = Fixture()
    fixture.api.bad_days = [BadDay(1, ClusterError(Problem("cut")))]
    async with fixture:
        fixture.api.put("a", "1")
        fixture.api.put("b", "2")
        await fixture.clock.advance(60)
        assert fixture.values() == {"a": "1", "b": "2"}
        assert fixture.api.lists == 1
        assert fixture.api.watched_from == ["0", "1"]


async def test_a_bookmark_moves_the_version_and_changes_nothing_else() -> None:
    fixture = Fixture()
    fixture.api.bad_days = [BadDay(2)]
    async with fixture:
        fixture.api.put("a", "1")
        fixture.api.bookmark()
        fixture.api.put("a", "2")
        await fixture.clock.advance(1)
        assert fixture.api.watched_from == ["0", "2"]
        assert fixture.values() == {"a": "2"}
        assert fixture.keys == [("ns", "a"), ("ns", "a")]


async def test_after_410_a_deletion_that_was_missed_carries_the_object_as_last_seen() -> None:
    fixture = Fixture()
    fixture.api.put("kept", "1")
    fixture.api.put("lost", "2")
    fixture.api.bad_days = [BadDay(0, ClusterError(Problem("cut")))]
    async with fixture:
        fixture.deltas.clear()
        fixture.api.remove("lost")
        fixture.api.oldest = len(fixture.api.history)
        await fixture.clock.advance(60)
        assert fixture.values() == {"kept": "1"}
        [delta] = fixture.deltas
        assert delta.after is None
        assert delta.before is not None
        assert delta.before.data == {"value": "2"}


async def test_an_object_made_again_under_its_name_is_told_as_two_deltas() -> None:
    fixture = Fixture()
    fixture.api.put("a", "1")
    fixture.api.bad_days = [BadDay(0, ClusterError(Problem("cut")))]
    async with fixture:
        fixture.deltas.clear()
        fixture.api.remove("a")
        fixture.api.put("a", "2")
        fixture.api.oldest = len(fixture.api.history)
        await fixture.clock.advance(60)
        told = [
            (d.before and d.before.data["value"], d.after and d.after.data["value"]) for d in fixture.deltas
        ]
        assert told == [("1", None), (None, "2")]


async def test_a_silent_watch_is_cut_and_resumed() -> None:
    fixture = Fixture()
    async with fixture:
        fixture.api.silent = True  # a half-open connection: nothing arrives, nothing fails
        fixture.api.put("a", "1")
        await fixture.clock.advance(299)
        assert fixture.values() == {}
        fixture.api.silent = False
        await fixture.clock.advance(1)
        assert fixture.values() == {"a": "1"}
        assert fixture.api.watched_from == ["0", "0"]


async def test_an_unreachable_server_is_asked_ever_more_rarely() -> None:
    fixture = Fixture()
    fixture.api.bad_days = [BadDay(0, ClusterError(Problem("refused"))) for _ in range(40)]
    async with fixture:
        fixture.api.put("a", "1")
        await fixture.clock.advance(180)
        assert 15 <= len(fixture.api.watched_from) <= 26


async def test_a_server_that_comes_back_is_followed_within_seconds_though_it_refuses_at_first() -> None:
    """Roles are not read yet when it opens its port: the first answers are 403."""
    fixture = Fixture()
    unreachable = [BadDay(0, ClusterError(Problem("refused"))) for _ in range(20)]
    fixture.api.bad_days = [*unreachable, *(BadDay(0, ApiError(403, "Forbidden", "")) for _ in range(2))]
    async with fixture:
        fixture.api.put("a", "1")
        while len(fixture.api.watched_from) <= len(unreachable):
            await fixture.clock.advance(0.5)
        await fixture.clock.advance(2)
        assert fixture.values() == {"a": "1"}


async def test_a_server_that_ends_every_watch_at_once_is_not_hammered() -> None:
    fixture = Fixture()
    fixture.api.bad_days = [BadDay(0) for _ in range(400)]
    async with fixture:
        await fixture.clock.advance(180)
        assert len(fixture.api.watched_from) <= 15


async def test_nodes_whose_server_is_away_do_not_ask_in_step() -> None:
    """Or it would be asked by a whole fleet at one moment when it comes back."""
    asked: set[int] = set()
    for node in range(10):
        fixture = Fixture(field_selector=f"metadata.name=node-{node}")
        fixture.api.bad_days = [BadDay(0, ClusterError(Problem("refused"))) for _ in range(10)]
        async with fixture:
            fixture.api.put("a", "1")
            while len(fixture.api.watched_from) < 10:
                await fixture.clock.advance(0.25)
            asked.add(round(fixture.clock.monotonic() * 4))
    assert len(asked) > 5


async def test_a_refused_watch_starts_over_with_a_list() -> None:
    fixture = Fixture()
    fixture.api.bad_days = [BadDay(0, ApiError(400, "BadRequest", "version from the future"))]
    async with fixture:
        fixture.api.put("a", "1")
        await fixture.clock.advance(5)
        assert fixture.api.lists == 2
        assert fixture.values() == {"a": "1"}


async def test_wait_for_returns_when_the_copy_satisfies_the_predicate() -> None:
    fixture = Fixture()
    async with fixture:
        two = asyncio.create_task(fixture.informer.wait_for(lambda objects: len(objects) == 2))
        fixture.api.put("a", "1")
        await fixture.clock.settle()
        assert not two.done()
        fixture.api.put("b", "1")
        await fixture.clock.settle()
        assert two.done()
        await fixture.informer.wait_for(lambda objects: objects.get("b", "ns") is not None)


async def test_an_index_follows_its_objects_and_may_be_added_late() -> None:
    fixture = Fixture()
    fixture.api.put("a", "x")
    async with fixture:
        fixture.informer.add_index("value", lambda obj: [obj.data["value"]])
        fixture.api.put("b", "x")
        fixture.api.put("a", "y")
        await fixture.clock.settle()
        assert [obj.metadata.name for obj in fixture.informer.by_index("value", "x")] == ["b"]
        fixture.api.remove("a")
        await fixture.clock.settle()
        assert fixture.informer.by_index("value", "y") == []


_STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from("abc")),
    st.tuples(st.just("remove"), st.sampled_from("abc")),
    st.tuples(st.sampled_from(("bookmark", "compact", "wait")), st.just("")),
)
_BAD_DAYS = st.builds(
    BadDay,
    st.integers(0, 3),
    st.sampled_from((None, ClusterError(Problem("cut")), ApiError(500, "InternalError", "no"), GoneError())),
)


@settings(deadline=None)
@given(st.lists(_STEPS, max_size=25), st.lists(_BAD_DAYS, max_size=10))
def test_whenever_the_watch_is_cut_nothing_is_lost(
    steps: list[tuple[str, str]], bad_days: list[BadDay]
) -> None:
    async def scenario() -> None:
        fixture = Fixture()
        fixture.api.bad_days = bad_days
        fixture.informer.add_index("value", lambda obj: [obj.data["value"]])
        async with fixture:
            for number, step in enumerate(steps):
                await _do(fixture, step, str(number))
            await fixture.clock.advance(300)
            assert fixture.values() == {name: obj.data["value"] for name, obj in fixture.api.objects.items()}
            assert _folded(fixture.deltas) == fixture.values()
            for obj in fixture.informer:
                assert fixture.informer.by_index("value", obj.data["value"]) == [obj]

    asyncio.run(scenario())


async def _do(fixture: Fixture, step: tuple[str, str], value: str) -> None:
    match step:
        case ("put", name):
            fixture.api.put(name, value)
        case ("remove", name):
            fixture.api.remove(name)
        case ("bookmark", _):
            fixture.api.bookmark()
        case ("compact", _):
            fixture.api.oldest = len(fixture.api.history)
        case _:
            await fixture.clock.advance(0.3)


def _folded(deltas: Iterable[Delta[ConfigMap]]) -> dict[str, str]:
    """The copy that a handler would build: every delta must start where the last one for its key ended."""
    seen: dict[Key, ConfigMap] = {}
    for delta in deltas:
        obj = delta.after or delta.before
        assert obj is not None
        assert seen.get(key_of(obj)) == delta.before
        if delta.before is not None and delta.after is not None:
            assert delta.before.metadata.uid == delta.after.metadata.uid
        if delta.after is None:
            del seen[key_of(obj)]
        else:
            seen[key_of(obj)] = delta.after
    return {name: obj.data["value"] for (_, name), obj in seen.items()}


async def test_a_cancelled_informer_leaves_no_task_behind() -> None:
    fixture = Fixture()
    async with fixture:
        pass
    await fixture.clock.settle()
    assert fixture.task is not None
    with pytest.raises(asyncio.CancelledError):
        await fixture.task
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_those_who_share_a_copy_are_all_told_by_one_list_and_one_watch() -> None:
    fixture = Fixture()
    informers = Informers(cast(KubernetesApi, fixture.api), fixture.clock)
    keys: list[Key] = []
    copy = informers.of(CONFIG_MAP, keys.append)
    metadata_alone = Kind("", "v1", "ConfigMap", "configmaps", True, Object)
    assert informers.of(metadata_alone, keys.append) is copy
    runs = [asyncio.create_task(copy.run()) for _ in range(2)]
    fixture.api.put("a", "1")
    await fixture.clock.settle()
    runs[0].cancel()
    await fixture.clock.settle()
    fixture.api.put("b", "2")
    await fixture.clock.settle()
    assert keys == [("ns", name) for name in ("a", "a", "b", "b")]
    assert fixture.api.lists == 1
    with pytest.raises(Bug, match="configmaps"):
        informers.of(CONFIG_MAP)
    runs[1].cancel()
