"""Nothing is answered, listed or watched before it is on disk; what the disk refuses has never been."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import ChangeType, PatchType
from tonnage.twin.apiserver.in_process_client import LocalKubernetes
from tonnage.twin.apiserver.object_store import Commit, StaleError
from tonnage.twin.apiserver.reading.watching import WatchQuery, events
from tonnage.twin.apiserver.requests import DeleteOptions, ResourcePath
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.statuses import no_space
from tonnage.twin.apiserver.storage.store import Store
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import CONFIG_MAP, CUSTOM_RESOURCE, DEPLOYMENT, NODE, POD

MAPS = ("", "configmaps")


class Disk:
    """A journal whose every write waits until the test lets it end, well or badly."""

    def __init__(self) -> None:
        self.written: list[Commit] = []
        self.batches: list[int] = []
        self.open = True
        self.full = False
        self._gate = asyncio.Event()

    async def keep(self, commits: Sequence[Commit]) -> None:
        while not self.open:
            self._gate.clear()
            await self._gate.wait()
        if self.full:
            raise no_space()
        self.written += commits
        self.batches.append(len(commits))

    def let(self, *, full: bool = False) -> None:
        """Let what waits, and what comes, end."""
        self.open, self.full = True, full
        self._gate.set()


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Bench:
    """A server on such a disk, with an object to be changed, and a watch that stands."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.store = Store(journal=disk)
        self.server = ApiServer(VirtualClock(), store=self.store, random=Random(1))
        self.api: LocalKubernetes = self.server.local()

    @classmethod
    async def made(cls) -> Bench:
        bench = cls(Disk())
        await bench.api.create(CONFIG_MAP, _map("there"), namespace="default")
        pod: JsonObject = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await bench.api.create(POD, pod, namespace="default")
        await bench.api.create(NODE, {"metadata": {"name": "n"}})
        template: JsonObject = {"metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]}
        spec: JsonObject = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        await bench.api.create(DEPLOYMENT, {"metadata": {"name": "d"}, "spec": spec}, namespace="default")
        return bench

    async def state(self) -> dict[str, str]:
        """What readers are shown: names and versions, by list and by get."""
        found: dict[str, str] = {}
        for kind in (CONFIG_MAP, POD, NODE, DEPLOYMENT, CUSTOM_RESOURCE):
            for one in (await self.api.list(kind)).items:
                key, version = f"{kind.kind} {one.metadata.name}", one.metadata.resource_version
                found[key] = version
                got: Any = await self.api.get(kind, one.metadata.name, one.metadata.namespace or None)
                assert got.metadata.resource_version == version
        return found


def _map(name: str, value: str = "") -> JsonObject:
    return {"metadata": {"name": name}, "data": {"key": value}}


def _crd() -> JsonObject:
    schema: JsonObject = {"openAPIV3Schema": {"type": "object"}}
    version: JsonObject = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names: JsonObject = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


_PODS = ResourcePath(("", "v1", "configmaps"), "default")
_EVICTION: JsonObject = {"metadata": {"name": "p", "namespace": "default"}}
_TARGET: JsonObject = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}


async def _delete_all(bench: Bench) -> None:
    from tonnage.twin.apiserver.reading.listing import ListQuery

    request = bench.server.verbs.request("deletecollection", _PODS)
    await bench.server.verbs.delete_collection(request, ListQuery("default"), DeleteOptions())


WRITES: list[tuple[str, Callable[[Bench], Awaitable[object]]]] = [
    ("create", lambda b: b.api.create(CONFIG_MAP, _map("new"), namespace="default")),
    ("create a definition", lambda b: b.api.create(CUSTOM_RESOURCE, _crd())),
    ("replace", lambda b: b.api.replace(CONFIG_MAP, _map("there", "x"), namespace="default")),
    (
        "merge patch",
        lambda b: b.api.patch(CONFIG_MAP, "there", {"data": {"key": "y"}}, namespace="default"),
    ),
    (
        "strategic patch of a status",
        lambda b: b.api.patch(
            POD,
            "p",
            {"status": {"phase": "Running"}},
            namespace="default",
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        ),
    ),
    ("delete", lambda b: b.api.delete(CONFIG_MAP, "there", namespace="default")),
    ("delete a collection", _delete_all),
    ("bind", lambda b: b.api.create_subresource(POD, "p", "binding", _TARGET, namespace="default")),
    ("evict", lambda b: b.api.create_subresource(POD, "p", "eviction", _EVICTION, namespace="default")),
    (
        "scale",
        lambda b: b.api.patch(
            DEPLOYMENT, "d", {"spec": {"replicas": 3}}, namespace="default", subresource="scale"
        ),
    ),
]


@pytest.mark.parametrize("write", [write for _, write in WRITES], ids=[name for name, _ in WRITES])
async def test_a_write_is_seen_by_nobody_before_it_is_on_disk(
    write: Callable[[Bench], Awaitable[object]],
) -> None:
    bench = await Bench.made()
    before, told = await bench.state(), list[str]()
    watching = asyncio.ensure_future(_note(bench, told))
    bench.disk.open = False
    writing = asyncio.ensure_future(write(bench))
    await _settle()
    assert not writing.done()
    assert (await bench.state(), told) == (before, [])
    bench.disk.let()
    await writing
    await _settle()
    assert await bench.state() != before
    assert bool(told) == any(commit.resource == MAPS for commit in bench.disk.written[-2:])
    watching.cancel()


@pytest.mark.parametrize("write", [write for _, write in WRITES], ids=[name for name, _ in WRITES])
async def test_a_write_for_which_the_disk_is_full_has_never_been(
    write: Callable[[Bench], Awaitable[object]],
) -> None:
    bench = await Bench.made()
    before, told = await bench.state(), list[str]()
    watching = asyncio.ensure_future(_note(bench, told))
    bench.disk.let(full=True)
    with pytest.raises(ApiError) as caught:
        await write(bench)
    assert (caught.value.code, caught.value.message) == (500, "etcdserver: mvcc: database space exceeded")
    assert (await bench.state(), told) == (before, [])
    bench.disk.full = False
    await write(bench)
    assert await bench.state() != before
    watching.cancel()


async def _note(bench: Bench, told: list[str]) -> None:
    query = WatchQuery(MAPS, "", lambda _obj: True, bench.store.durable)
    async for fresh in events(bench.store, VirtualClock(), query):
        told += [seen.type for seen in fresh]


async def test_a_refusal_that_stands_on_a_write_waits_for_it_too() -> None:
    bench = await Bench.made()
    bench.disk.open = False
    first = asyncio.ensure_future(bench.api.create(CONFIG_MAP, _map("new"), namespace="default"))
    await _settle()
    second = asyncio.ensure_future(bench.api.create(CONFIG_MAP, _map("new"), namespace="default"))
    await _settle()
    assert not second.done()
    bench.disk.let(full=True)
    for writing in (first, second):
        with pytest.raises(ApiError) as caught:
            await writing
        assert caught.value.code == 500  # not AlreadyExists: nothing of that name is there


async def test_a_definition_that_the_disk_refuses_serves_nothing() -> None:
    bench = await Bench.made()
    bench.disk.let(full=True)
    with pytest.raises(ApiError):
        await bench.api.create(CUSTOM_RESOURCE, _crd())
    assert bench.server.registry.find("example.com", "v1", "things") is None


async def test_writes_that_come_together_are_written_together() -> None:
    bench = await Bench.made()
    bench.disk.open, bench.disk.batches = False, []
    writes = [
        asyncio.ensure_future(bench.api.create(CONFIG_MAP, _map(f"m{i}"), namespace="default"))
        for i in range(50)
    ]
    await _settle()
    bench.disk.let()
    await asyncio.gather(*writes)
    assert sum(bench.disk.batches) == 50
    assert len(bench.disk.batches) <= 2


class Faulty:
    """A disk that refuses when it is told to, after a moment; `objects` is what lies on it."""

    def __init__(self, refuses: list[bool]) -> None:
        self._refuses = refuses
        self.objects: dict[str, Any] = {}
        self.revision = 1

    async def keep(self, commits: Sequence[Commit]) -> None:
        await asyncio.sleep(0)
        if self._refuses and self._refuses.pop():
            raise no_space()
        for commit in commits:
            assert commit.after.revision > self.revision
            self.revision = commit.after.revision
            if commit.type is ChangeType.DELETED:
                del self.objects[commit.name[1]]
            else:
                self.objects[commit.name[1]] = commit.after.object


@given(
    st.lists(st.one_of(st.none(), st.tuples(st.sampled_from("abc"), st.booleans())), max_size=40),
    st.lists(st.booleans(), max_size=20),
    st.sampled_from([2, 100]),
)
@settings(deadline=None)
def test_whatever_the_disk_refuses_the_store_shows_what_is_on_it(
    steps: list[tuple[str, bool] | None], refuses: list[bool], log_length: int
) -> None:
    async def check() -> None:
        disk = Faulty(refuses)
        store = Store(log_length=log_length, journal=disk)
        watched: dict[str, Any] = {}
        watch = store.watch(MAPS, store.durable)
        for step in steps:
            if step is None:  # let a write, or a part of one, happen
                await asyncio.sleep(0)
            else:
                _write(store, *step)
            shown = {one.object["metadata"]["name"]: one.object for one in store.list(MAPS, at=store.durable)}  # type: ignore[index,call-overload]
            assert (shown, store.durable) == (disk.objects, disk.revision)
            for name in "abc":
                seen = store.durable_object(MAPS, ("", name))
                assert (None if seen is None else seen.object) == disk.objects.get(name)
            if log_length > 40:
                _follow(watched, watch.ready())
                assert watched == disk.objects
        while store.durable < store.revision:
            try:
                await store.on_disk()
            except ApiError:
                continue
        now = {one.object["metadata"]["name"]: one.object for one in store.list(MAPS)}  # type: ignore[index,call-overload]
        assert now == disk.objects

    asyncio.run(check())


def _write(store: Store, name: str, keep: bool) -> None:
    key = ("", name)
    read = store.get(MAPS, key)
    body: JsonObject = {"metadata": {"name": name}, "at": store.revision}
    if read is None:
        store.create(MAPS, key, body)
        with pytest.raises(StaleError):
            store.create(MAPS, key, body)
    elif keep:
        store.update(MAPS, key, body, read=read)
    else:
        store.delete(MAPS, key, read=read)


def _follow(watched: dict[str, Any], commits: list[Commit]) -> None:
    for commit in commits:
        if commit.type is ChangeType.DELETED:
            del watched[commit.name[1]]
        else:
            watched[commit.name[1]] = commit.after.object
