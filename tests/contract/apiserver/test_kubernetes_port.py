"""What every implementation of the Kubernetes port does alike: in process, over HTTPS, on a genuine server.

The genuine one is for `make test-kubernetes`. A test with the fixture `twin` needs hooks on the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from support.api_stores import new_store
from support.genuine import emptied
from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.kubernetes.client import connect
from tonnage.loop.informer import Informer
from tonnage.model.errors import ApiError, ClusterError, GoneError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.ports.kubernetes import ChangeType, KubernetesApi, PatchType, WatchEvent
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import CONFIG_MAP, NODE, POD, Kind
from tonnage.wire.objects import ConfigMap, Object, ObjectMeta

T = TypeVar("T", bound=Object)
_LOG = 16


@dataclass
class Port:
    """An implementation of the port."""

    api: KubernetesApi


@dataclass
class TwinPort(Port):
    """An implementation with hands on the twin behind it: for promises that no client can put to the test."""

    server: ApiServer
    clock: VirtualClock


GENUINE = pytest.param("genuine", marks=pytest.mark.kubernetes)


@pytest.fixture(params=["in process", "over HTTPS", GENUINE])
def target(request: pytest.FixtureRequest) -> str | Path:
    """What to connect to: the name of a way to the twin, or the kubeconfig of a genuine API server."""
    if request.param == "genuine":
        return cast(Path, request.getfixturevalue("genuine_kubeconfig"))
    return cast(str, request.param)


@pytest.fixture
async def port(target: str | Path, tmp_path: Path) -> AsyncIterator[Port]:
    """Every implementation."""
    if isinstance(target, Path):
        async with connect(target) as api:
            yield Port(api)
            await emptied(api)
        return
    async with _twin(target, tmp_path) as twin:
        yield twin


@pytest.fixture(params=["in process", "over HTTPS"])
async def twin(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TwinPort]:
    """The implementations that stand before the twin. A test that asks for this needs its hooks."""
    async with _twin(request.param, tmp_path) as twin:
        yield twin


@asynccontextmanager
async def _twin(way: str, folder: Path) -> AsyncIterator[TwinPort]:
    clock = VirtualClock()
    server = ApiServer(clock, store=new_store(log_length=_LOG))
    if way == "in process":
        yield TwinPort(server.local(), server, clock)
        return
    endpoint = await server.start(Authority.generate(datetime.now(UTC)))
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(kubeconfig_text(endpoint))
    async with connect(kubeconfig) as api:
        yield TwinPort(api, server, clock)
    await server.stop()


def _map(name: str, **data: str) -> JsonObject:
    values: JsonObject = dict(data)
    return {"metadata": {"name": name, "labels": {"app": name}}, "data": values}


def _pod(name: str, **spec: JsonValue) -> JsonObject:
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "cuda:12"}], **spec},
    }


async def _put(port: Port, name: str, **data: str) -> ConfigMap:
    return await port.api.create(CONFIG_MAP, _map(name, **data), namespace="default")


async def _refused(code: int, reason: str, call: object) -> str:
    """The message of the refusal that a call must meet."""
    with pytest.raises(ApiError) as refused:
        await call  # type: ignore[misc]
    assert (refused.value.code, refused.value.reason) == (code, reason)
    return refused.value.message


class Watching:
    """A watch, read in the background."""

    def __init__(self, port: Port, version: str, **scope: str) -> None:
        self.seen: list[WatchEvent[ConfigMap]] = []
        self._arrived = asyncio.Event()
        stream = port.api.watch(CONFIG_MAP, resource_version=version, **scope)
        self._task = asyncio.create_task(self._read(stream))

    async def _read(self, stream: AsyncIterator[WatchEvent[ConfigMap]]) -> None:
        async for change in stream:
            self.seen.append(change)
            self._arrived.set()

    async def __aenter__(self) -> Watching:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def first(self, count: int) -> list[tuple[ChangeType, str]]:
        """Types and names of the first changes, once they are here."""
        async with asyncio.timeout(60):
            while len(self.seen) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return [(change.type, change.object.metadata.name) for change in self.seen[:count]]

    async def ended(self) -> None:
        """Return when the stream has ended; raises what it raised."""
        async with asyncio.timeout(60):
            await self._task


async def test_a_trial_is_answered_as_a_write_and_stores_nothing(port: Port) -> None:
    body: JsonObject = {"metadata": {"name": "a"}, "data": {"key": "value"}}
    dry = await port.api.dry_run_create(CONFIG_MAP, body, namespace="default")
    assert (dry.metadata.name, dry.metadata.namespace, dry.data) == ("a", "default", {"key": "value"})
    with pytest.raises(ApiError) as missing:
        await port.api.get(CONFIG_MAP, "a", "default")
    assert missing.value.code == 404
    await port.api.create(CONFIG_MAP, body, namespace="default")
    with pytest.raises(ApiError) as there:
        await port.api.dry_run_create(CONFIG_MAP, body, namespace="default")
    assert (there.value.code, there.value.reason) == (409, "AlreadyExists")


async def test_a_created_object_comes_back_as_it_is_stored(port: Port) -> None:
    made = await _put(port, "a", key="value")
    assert made.metadata.uid
    assert made.metadata.resource_version
    assert made.metadata.creation_timestamp
    assert (made.api_version, made.kind, made.data) == ("v1", "ConfigMap", {"key": "value"})
    assert await port.api.get(CONFIG_MAP, "a", "default") == made


async def test_a_struct_is_as_good_a_body_as_json(port: Port) -> None:
    body = ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"key": "value"})
    assert (await port.api.create(CONFIG_MAP, body)).data == {"key": "value"}


async def test_the_server_completes_a_generated_name(port: Port) -> None:
    body: JsonObject = {"metadata": {"generateName": "web-"}}
    names = {(await port.api.create(CONFIG_MAP, body, namespace="default")).metadata.name for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


async def test_refusals_carry_code_reason_and_message(port: Port) -> None:
    await _put(port, "a")
    message = await _refused(409, "AlreadyExists", _put(port, "a"))
    assert message == 'configmaps "a" already exists'
    message = await _refused(404, "NotFound", port.api.get(CONFIG_MAP, "b", "default"))
    assert message == 'configmaps "b" not found'
    message = await _refused(422, "Invalid", _put(port, "NotAName"))
    assert message.startswith('ConfigMap "NotAName" is invalid: metadata.name: Invalid value: "NotAName"')
    message = await _refused(404, "NotFound", port.api.delete(CONFIG_MAP, "b", namespace="default"))
    assert message == 'configmaps "b" not found'
    absent = port.api.create(CONFIG_MAP, _map("a"), namespace="absent")
    assert await _refused(404, "NotFound", absent) == 'namespaces "absent" not found'
    unknown = Kind("a.test", "v1", "Job", "jobs", True, Object)
    await _refused(404, "NotFound", port.api.list(unknown))


async def test_a_list_is_selected_by_namespace_labels_and_fields(port: Port) -> None:
    for name in ("a", "b", "c"):
        await _put(port, name)
    await port.api.create(CONFIG_MAP, _map("a"), namespace="kube-system")

    async def names(**scope: Any) -> list[tuple[str, str]]:
        listing = await port.api.list(CONFIG_MAP, **scope)
        return [(item.metadata.namespace, item.metadata.name) for item in listing.items]

    assert await names(namespace="default", label_selector="app in (a, c)") == [
        ("default", "a"),
        ("default", "c"),
    ]
    assert await names(label_selector="app=a") == [("default", "a"), ("kube-system", "a")]
    assert await names(namespace="default", label_selector="app!=a,app") == [
        ("default", "b"),
        ("default", "c"),
    ]
    assert await names(field_selector="metadata.name=b") == [("default", "b")]


async def test_items_of_a_list_carry_their_kind_as_others_do(port: Port) -> None:
    await _put(port, "a")
    listing = await port.api.list(CONFIG_MAP, namespace="default")
    assert [(item.api_version, item.kind) for item in listing.items] == [("v1", "ConfigMap")]
    assert listing.items == [await port.api.get(CONFIG_MAP, "a", "default")]


async def test_a_list_in_many_pages_is_whole(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonnage.adapters.kubernetes.http.PAGE", 3)
    for number in range(10):
        await _put(port, f"m-{number}")
    listing = await port.api.list(CONFIG_MAP, namespace="default")
    assert [item.metadata.name for item in listing.items] == [f"m-{number}" for number in range(10)]
    async with Watching(port, listing.resource_version) as watching:
        await _put(port, "after")
        assert await watching.first(1) == [(ChangeType.ADDED, "after")]


async def test_the_three_kinds_of_patch(port: Port) -> None:
    await port.api.create(POD, _pod("p"), namespace="default")
    merged = await port.api.patch(
        POD, "p", {"metadata": {"labels": {"a": "1", "b": "2"}}}, namespace="default"
    )
    assert merged.metadata.labels == {"a": "1", "b": "2"}
    steps: JsonValue = [
        {"op": "test", "path": "/metadata/labels/a", "value": "1"},
        {"op": "remove", "path": "/metadata/labels/a"},
    ]
    stepped = await port.api.patch(POD, "p", steps, namespace="default", patch_type=PatchType.JSON)
    assert stepped.metadata.labels == {"b": "2"}
    by_name: JsonValue = {"spec": {"containers": [{"name": "main", "image": "cuda:13"}]}}
    strategic = await port.api.patch(POD, "p", by_name, namespace="default", patch_type=PatchType.STRATEGIC)
    assert [(c.name, c.image) for c in strategic.spec.containers] == [("main", "cuda:13")]
    removed = await port.api.patch(POD, "p", {"metadata": {"labels": None}}, namespace="default")
    assert removed.metadata.labels == {}


async def test_a_write_of_what_has_changed_meanwhile_is_a_conflict(port: Port) -> None:
    first = await _put(port, "a", key="1")
    body: JsonObject = {
        **_map("a", key="2"),
        "metadata": {"name": "a", "resourceVersion": first.metadata.resource_version},
    }
    second = await port.api.replace(CONFIG_MAP, body, namespace="default")
    assert second.data == {"key": "2"}
    assert second.metadata.uid == first.metadata.uid
    message = await _refused(409, "Conflict", port.api.replace(CONFIG_MAP, body, namespace="default"))
    assert message.startswith('Operation cannot be fulfilled on configmaps "a": the object has been modified')
    stale: JsonObject = {"metadata": {"resourceVersion": first.metadata.resource_version}, "data": {"k": "v"}}
    await _refused(409, "Conflict", port.api.patch(CONFIG_MAP, "a", stale, namespace="default"))


async def test_a_deletion_by_uid_spares_another_object_of_that_name(port: Port) -> None:
    made = await _put(port, "a")
    await _refused(409, "Conflict", port.api.delete(CONFIG_MAP, "a", namespace="default", uid="another"))
    await port.api.delete(CONFIG_MAP, "a", namespace="default", uid=made.metadata.uid)
    await _refused(404, "NotFound", port.api.get(CONFIG_MAP, "a", "default"))


async def test_how_dependants_go_is_left_to_the_collector_by_finalizers(port: Port) -> None:
    for name, propagation, finalizer in (
        ("f", "Foreground", "foregroundDeletion"),
        ("o", "Orphan", "orphan"),
    ):
        await _put(port, name)
        await port.api.delete(CONFIG_MAP, name, namespace="default", propagation=propagation)
        left = await port.api.get(CONFIG_MAP, name, "default")
        assert left.metadata.finalizers == [finalizer]
        assert left.metadata.deletion_timestamp is not None


async def test_a_bound_pod_is_given_its_grace_period(port: Port) -> None:
    await port.api.create(POD, _pod("p", nodeName="n"), namespace="default")
    await port.api.delete(POD, "p", namespace="default", grace_period_s=7)
    assert (await port.api.get(POD, "p", "default")).metadata.deletion_grace_period_seconds == 7
    await port.api.delete(POD, "p", namespace="default", grace_period_s=0)
    await _refused(404, "NotFound", port.api.get(POD, "p", "default"))


async def test_a_watch_tells_every_change_in_order(port: Port) -> None:
    start = (await port.api.list(CONFIG_MAP)).resource_version
    async with Watching(port, start, namespace="default") as watching:
        await _put(port, "a", key="1")
        await port.api.create(CONFIG_MAP, _map("elsewhere"), namespace="kube-system")
        await port.api.patch(CONFIG_MAP, "a", {"data": {"key": "2"}}, namespace="default")
        await port.api.delete(CONFIG_MAP, "a", namespace="default")
        assert await watching.first(3) == [
            (ChangeType.ADDED, "a"),
            (ChangeType.MODIFIED, "a"),
            (ChangeType.DELETED, "a"),
        ]
        assert watching.seen[2].object.data == {"key": "2"}, "a deletion carries the object as it was last"
        assert all(change.object.kind == "ConfigMap" for change in watching.seen)


async def test_a_watch_resumes_after_any_version(port: Port) -> None:
    start = (await port.api.list(CONFIG_MAP)).resource_version
    for number in range(4):
        await _put(port, f"m-{number}")
    async with Watching(port, start) as watching:
        whole = await watching.first(4)
        versions = [change.object.metadata.resource_version for change in watching.seen]
    for position, version in enumerate(versions[:-1]):
        async with Watching(port, version) as resumed:
            assert await resumed.first(3 - position) == whole[position + 1 :]


async def test_a_selected_watch_tells_an_object_that_leaves_as_deleted(port: Port) -> None:
    start = (await port.api.list(CONFIG_MAP)).resource_version
    async with Watching(port, start, label_selector="app=a") as watching:
        await _put(port, "a")
        await _put(port, "b")
        await port.api.patch(CONFIG_MAP, "a", {"metadata": {"labels": {"app": "z"}}}, namespace="default")
        await port.api.patch(CONFIG_MAP, "b", {"metadata": {"labels": {"app": "a"}}}, namespace="default")
        assert await watching.first(3) == [
            (ChangeType.ADDED, "a"),
            (ChangeType.DELETED, "a"),
            (ChangeType.ADDED, "b"),
        ]


async def test_a_quiet_watch_brings_bookmarks_with_a_version_to_resume_from(twin: TwinPort) -> None:
    start = (await twin.api.list(CONFIG_MAP)).resource_version
    async with Watching(twin, start, label_selector="app=never") as watching:
        await _until_watched(twin)
        await _put(twin, "other")
        await twin.clock.advance(61)
        assert [kind for kind, _ in await watching.first(1)] == [ChangeType.BOOKMARK]
        bookmark = watching.seen[0].object.metadata.resource_version
    assert int(bookmark) > int(start)
    async with Watching(twin, bookmark) as resumed:
        await _put(twin, "after")
        assert await resumed.first(1) == [(ChangeType.ADDED, "after")]


async def test_a_version_that_the_server_has_forgotten_is_gone(twin: TwinPort) -> None:
    start = (await twin.api.list(CONFIG_MAP)).resource_version
    await _put(twin, "a")
    for number in range(3 * _LOG):
        await twin.api.patch(CONFIG_MAP, "a", {"data": {"key": str(number)}}, namespace="default")
    watching = Watching(twin, start)
    with pytest.raises(GoneError):
        await watching.ended()


async def test_a_watch_that_the_server_cuts_ends_and_can_be_resumed(twin: TwinPort) -> None:
    start = (await twin.api.list(CONFIG_MAP)).resource_version
    watching = Watching(twin, start)
    await _put(twin, "a")
    await watching.first(1)
    twin.server.store.cut_watches()
    cut = (await asyncio.gather(watching.ended(), return_exceptions=True))[0]
    assert cut is None or (isinstance(cut, ClusterError) and not isinstance(cut, ApiError))
    version = watching.seen[-1].object.metadata.resource_version
    async with Watching(twin, version) as resumed:
        await _put(twin, "b")
        assert await resumed.first(1) == [(ChangeType.ADDED, "b")]


async def test_an_informer_misses_nothing_while_its_watches_are_cut(twin: TwinPort) -> None:
    informer: Informer[ConfigMap] = Informer(twin.api, CONFIG_MAP, SystemClock(), namespace="default")
    running = asyncio.create_task(informer.run())
    async with asyncio.timeout(60):
        await informer.synced()
        for number in range(_LOG):
            await _put(twin, f"m-{number}")
            twin.server.store.cut_watches()
            if number % 2:
                await twin.api.delete(CONFIG_MAP, f"m-{number - 1}", namespace="default")
        expected = {f"m-{number}" for number in range(1, _LOG, 2)}
        await informer.wait_for(lambda objects: {obj.metadata.name for obj in objects} == expected)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_status_and_the_rest_are_written_apart(port: Port) -> None:
    await port.api.create(NODE, {"metadata": {"name": "n"}})
    status: JsonObject = {
        "spec": {"unschedulable": True},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}},
    }
    node = await port.api.patch(NODE, "n", status, subresource="status")
    assert (node.spec.unschedulable, node.status.allocatable) == (False, {"nvidia.com/gpu": "8"})
    cordon: JsonObject = {"spec": {"unschedulable": True}, "status": {"allocatable": None}}
    node = await port.api.patch(NODE, "n", cordon)
    assert (node.spec.unschedulable, node.status.allocatable) == (True, {"nvidia.com/gpu": "8"})


async def test_a_pod_is_bound_once(port: Port) -> None:
    await port.api.create(NODE, {"metadata": {"name": "n"}})
    await port.api.create(POD, _pod("p"), namespace="default")
    binding: JsonObject = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }
    await port.api.create_subresource(POD, "p", "binding", binding, namespace="default")
    assert (await port.api.get(POD, "p", "default")).spec.node_name == "n"
    again = port.api.create_subresource(POD, "p", "binding", binding, namespace="default")
    assert "already assigned to node" in await _refused(409, "Conflict", again)


async def _until_watched(twin: TwinPort) -> None:
    """Let a request that is under way reach the server."""
    for _ in range(50):
        await twin.clock.settle()
