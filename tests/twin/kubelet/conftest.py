"""A node for the tests: a small API in memory, a device plugin of our own over real gRPC, a virtual clock."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import msgspec
import pytest

from tonnage.model.errors import ApiError
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import ChangeType, KubernetesApi, Listing, PatchType, WatchEvent
from tonnage.twin.clock import VirtualClock
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.twin.kubelet.containers.runtime import PretendedRuntime
from tonnage.twin.kubelet.containers.runtime_port import Program
from tonnage.twin.kubelet.kubelet import Kubelet
from tonnage.twin.kubelet.node_disk import FaultyDisk, LocalDisk
from tonnage.twin.kubelet.node_spec import KubeletNode, NodePaths
from tonnage.twin.kubelet.programs.image_programs import Programs
from tonnage.wire import kinds
from tonnage.wire.kinds import Kind
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire
from tonnage.wire.kubelet import methods

Body = dict[str, Any]
GPU = "nvidia.com/gpu"


class Changed:
    """Something to wait on: `until` returns as soon as its condition holds."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def tell(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await self._event.wait()


class MemoryApi(Changed):
    """Just enough of an API server: versions, watches, status patches, graceful deletion of pods."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, dict[tuple[str, str], Body]] = defaultdict(dict)
        self._history: dict[str, list[tuple[ChangeType, Body]]] = defaultdict(list)
        self._revision = 0
        self.down = False

    def pod(self, name: str, namespace: str = "default") -> Body:
        return self.objects["pods"].get((namespace, name), {})

    def node(self) -> Body:
        return next(iter(self.objects["nodes"].values()), {})

    def events(self, name: str) -> list[str]:
        return [
            f"{e['type']} {e['reason']} {e['message']} x{e['count']}"
            for e in self.objects["events"].values()
            if e["involvedObject"]["name"] == name
        ]

    def history(self, plural: str, name: str) -> list[Body]:
        """Every state that the object has had."""
        return [body for _, body in self._history[plural] if body["metadata"]["name"] == name]

    def put(self, kind: Kind[Any], body: Body) -> Body:
        key = body["metadata"].get("namespace", ""), body["metadata"]["name"]
        self._revision += 1
        body = body | {"metadata": {**body["metadata"], "resourceVersion": str(self._revision)}}
        change = ChangeType.MODIFIED if key in self.objects[kind.plural] else ChangeType.ADDED
        self.objects[kind.plural][key] = body
        self._history[kind.plural].append((change, body))
        self.tell()
        return body

    def remove(self, kind: Kind[Any], name: str, namespace: str = "default") -> None:
        body = self.objects[kind.plural].pop((namespace, name))
        self._revision += 1
        body = body | {"metadata": {**body["metadata"], "resourceVersion": str(self._revision)}}
        self._history[kind.plural].append((ChangeType.DELETED, body))
        self.tell()

    async def get(self, kind: Kind[Any], name: str, namespace: str | None = None) -> Any:
        return self._typed(kind, self._find(kind, name, namespace))

    async def list(self, kind: Kind[Any], **selectors: Any) -> Listing[Any]:
        self._reach()
        bodies = [b for b in self.objects[kind.plural].values() if _selected(b, selectors)]
        return Listing([self._typed(kind, body) for body in bodies], str(len(self._history[kind.plural])))

    async def watch(
        self, kind: Kind[Any], *, resource_version: str, **selectors: Any
    ) -> AsyncIterator[WatchEvent[Any]]:
        history = self._history[kind.plural]
        at = min(int(resource_version), len(history))
        while True:
            while at < len(history):
                change, body = history[at]
                at += 1
                if _selected(body, selectors):
                    yield WatchEvent(change, self._typed(kind, body))
            await self._event.wait()

    async def create(self, kind: Kind[Any], body: Any, *, namespace: str | None = None) -> Any:
        self._reach()
        plain: Body = dict(body)
        key = namespace or plain["metadata"].get("namespace", ""), plain["metadata"]["name"]
        if key in self.objects[kind.plural]:
            raise ApiError(409, "AlreadyExists", f'{kind.plural} "{key[1]}" already exists')
        plain["metadata"] = {"uid": f"uid-{self._revision}", **plain["metadata"], "namespace": key[0]}
        return self._typed(kind, self.put(kind, plain))

    async def patch(
        self,
        kind: Kind[Any],
        name: str,
        patch: Any,
        *,
        namespace: str | None = None,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
    ) -> Any:
        del subresource
        body = self._find(kind, name, namespace)
        if patch.get("metadata", {}).get("uid", body["metadata"]["uid"]) != body["metadata"]["uid"]:
            raise ApiError(409, "Conflict", "Precondition failed: UID in precondition")
        return self._typed(kind, self.put(kind, _merged(body, patch, patch_type is PatchType.STRATEGIC)))

    async def delete(
        self,
        kind: Kind[Any],
        name: str,
        *,
        namespace: str | None = None,
        grace_period_s: int | None = None,
        uid: str | None = None,
        **_: Any,
    ) -> None:
        body = self._find(kind, name, namespace)
        if uid is not None and uid != body["metadata"]["uid"]:
            raise ApiError(409, "Conflict", "Precondition failed: UID in precondition")
        grace = 30 if grace_period_s is None else grace_period_s
        if kind is kinds.POD and grace and body["spec"].get("nodeName"):
            meta = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace}
            self.put(kind, body | {"metadata": {**body["metadata"], **meta}})
        else:
            self.remove(kind, name, namespace or "")

    def _find(self, kind: Kind[Any], name: str, namespace: str | None) -> Body:
        self._reach()
        body = self.objects[kind.plural].get((namespace or "", name))
        if body is None:
            raise ApiError(404, "NotFound", f'{kind.plural} "{name}" not found')
        return body

    def _reach(self) -> None:
        if self.down:
            raise ApiError(503, "ServiceUnavailable", "the server is down")

    def _typed(self, kind: Kind[Any], body: Body) -> Any:
        return msgspec.convert({**body, "apiVersion": kind.api_version, "kind": kind.kind}, kind.type)


def _selected(body: Body, selectors: Body) -> bool:
    parts = [part.partition("=") for part in selectors.get("field_selector", "").split(",") if part]
    return all(body["spec"].get(path.removeprefix("spec.")) == value for path, _, value in parts)


def _merged(old: Any, patch: Any, strategic: bool) -> Any:
    if not isinstance(patch, dict) or not isinstance(old, dict):
        return patch
    result = dict(old)
    for key, value in patch.items():
        if value is None or key.startswith("$"):
            result.pop(key, None)
        elif strategic and key in {"conditions", "addresses"}:
            by_type = {item["type"]: item for item in old.get(key, [])}
            for item in value:
                if "$patch" in item:
                    by_type.pop(item["type"], None)
                    continue
                by_type[item["type"]] = _merged(by_type.get(item["type"], {}), item, strategic)
            result[key] = list(by_type.values())
        else:
            result[key] = _merged(old.get(key), value, strategic)
    return result


class FakePlugin(Changed):
    """A device plugin with its own idea of health and preference, that remembers what it was asked."""

    def __init__(
        self,
        paths: NodePaths,
        resource: str,
        devices: Body,
        *,
        prefers: bool = True,
        pre_start: bool = False,
        numa: dict[str, int] | None = None,
        cdi: str = "",
    ) -> None:
        super().__init__()
        self.pre_start = pre_start
        self.numa = numa or {}
        self.cdi = cdi
        self.started: list[list[str]] = []
        self.paths = paths
        self.resource = resource
        self.devices = devices
        self.prefers = prefers
        self.socket = paths.device_plugins / f"{resource.replace('/', '-')}.sock"
        self.allocations: list[list[str]] = []
        self.preferences: list[tuple[list[str], list[str], int]] = []
        self.refusal = ""
        self.start_refusal = ""
        self.streams = 0
        self.asked = Changed()
        self._server: grpc.aio.Server | None = None

    def set_health(self, device: str, *, healthy: bool) -> None:
        self.devices[device] = healthy
        self.tell()

    async def start(self) -> None:
        server = grpc.aio.server()
        table: dict[str, Any] = {
            "GetDevicePluginOptions": (
                methods.GET_OPTIONS,
                self._options,
                grpc.unary_unary_rpc_method_handler,
            ),
            "ListAndWatch": (methods.LIST_AND_WATCH, self._watch, grpc.unary_stream_rpc_method_handler),
            "GetPreferredAllocation": (
                methods.GET_PREFERRED,
                self._prefer,
                grpc.unary_unary_rpc_method_handler,
            ),
            "PreStartContainer": (methods.PRE_START, self._pre_start, grpc.unary_unary_rpc_method_handler),
            "Allocate": (methods.ALLOCATE, self._allocate, grpc.unary_unary_rpc_method_handler),
        }
        handlers = {
            name: make(
                answer,
                request_deserializer=method.request.FromString,
                response_serializer=method.response.SerializeToString,
            )
            for name, (method, answer, make) in table.items()
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", cast(Any, handlers)),)
        )
        self.socket.unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{self.socket}")
        await server.start()
        self._server = server

    async def register(self, **changes: str) -> None:
        """Register as a plugin does; raises AioRpcError when the kubelet refuses."""
        request: dict[str, Any] = {
            "version": "v1beta1",
            "endpoint": self.socket.name,
            "resource_name": self.resource,
        } | changes
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(f"unix:{self.paths.registration_socket}", options) as channel:
            stub = channel.unary_unary(
                methods.REGISTER.path,
                request_serializer=methods.REGISTER.request.SerializeToString,
                response_deserializer=methods.REGISTER.response.FromString,
            )
            await stub(wire.RegisterRequest(**request))

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def _options(self, request: Any, context: Any) -> Any:
        del request, context
        return wire.DevicePluginOptions(
            get_preferred_allocation_available=self.prefers, pre_start_required=self.pre_start
        )

    async def _watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        del request, context
        self.streams += 1
        self.asked.tell()
        while True:
            changed = self._event
            yield wire.ListAndWatchResponse(
                devices=[
                    wire.Device(
                        ID=name,
                        health="Healthy" if healthy else "Unhealthy",
                        topology=wire.TopologyInfo(nodes=[wire.NUMANode(ID=self.numa[name])])
                        if name in self.numa
                        else None,
                    )
                    for name, healthy in self.devices.items()
                ]
            )
            await changed.wait()

    async def _prefer(self, request: Any, context: Any) -> Any:
        del context
        asked = request.container_requests[0]
        self.preferences.append(
            (list(asked.available_deviceIDs), list(asked.must_include_deviceIDs), asked.allocation_size)
        )
        best = sorted(asked.available_deviceIDs, reverse=True)[: asked.allocation_size]
        answer = wire.ContainerPreferredAllocationResponse(deviceIDs=best)
        return wire.PreferredAllocationResponse(container_responses=[answer])

    async def _allocate(self, request: Any, context: Any) -> Any:
        ids = list(request.container_requests[0].devices_ids)
        if self.refusal:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        self.allocations.append(ids)
        self.asked.tell()
        answer = wire.ContainerAllocateResponse(
            envs={"NVIDIA_VISIBLE_DEVICES": ",".join(i.split("::")[0] for i in ids)}
        )
        if self.cdi:
            answer = wire.ContainerAllocateResponse(
                cdi_devices=[wire.CDIDevice(name=f"{self.cdi}={device}") for device in ids]
            )
        return wire.AllocateResponse(container_responses=[answer])

    async def _pre_start(self, request: Any, context: Any) -> Any:
        if self.start_refusal:
            await context.abort(grpc.StatusCode.UNKNOWN, self.start_refusal)
        self.started.append(list(request.devices_ids))
        return wire.PreStartContainerResponse()


@dataclass
class World:
    """One node with everything around it."""

    api: MemoryApi
    clock: VirtualClock
    root: Path
    disk: FaultyDisk
    runtime: PretendedRuntime
    kubelet: Kubelet
    plugins: list[FakePlugin] = field(default_factory=list)

    async def plugin(self, resource: str = GPU, count: int = 4, **options: Any) -> FakePlugin:
        """A registered plugin whose devices the Node shows."""
        plugin = FakePlugin(self.kubelet.paths, resource, {f"GPU-{n}": True for n in range(count)}, **options)
        self.plugins.append(plugin)
        await plugin.start()
        await plugin.register()
        await self.api.until(lambda: self.allocatable(resource) == str(count))
        return plugin

    def allocatable(self, resource: str = GPU) -> str | None:
        return cast("str | None", self.api.node().get("status", {}).get("allocatable", {}).get(resource))

    def capacity(self, resource: str = GPU) -> str | None:
        return cast("str | None", self.api.node().get("status", {}).get("capacity", {}).get(resource))

    def bind(
        self,
        name: str,
        *,
        gpus: int = 0,
        command: list[str] | None = None,
        status: Body | None = None,
        **spec: Any,
    ) -> Body:
        """A pod that the scheduler has put on this node."""
        container: Body = {"name": "main", "image": "ubuntu:24.04", "command": command or ["sleep", "3600"]}
        if gpus:
            container["resources"] = {"limits": {GPU: str(gpus)}, "requests": {GPU: str(gpus)}}
        body = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"nodeName": self.kubelet.spec.name, "containers": [container], **spec},
            "status": status or {"phase": "Pending"},
        }
        return self.api.put(kinds.POD, body)

    async def phase(self, name: str, phase: str) -> Body:
        """The pod's status once it has that phase."""
        await self.api.until(lambda: self.api.pod(name).get("status", {}).get("phase") == phase)
        return cast(Body, self.api.pod(name)["status"])

    async def gone(self, name: str) -> None:
        await self.api.until(lambda: not self.api.pod(name))

    def held(self, name: str) -> list[str]:
        """Devices of the pod's containers."""
        entries = self.kubelet.devices.held(f"uid-{name}")
        return sorted(device for group in entries.values() for entry in group for device in entry.ids)


@pytest.fixture
def root() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@asynccontextmanager
async def running(
    root: Path, spec: KubeletNode | None = None, programs: dict[str, Program] | None = None
) -> AsyncIterator[World]:
    api, clock = MemoryApi(), VirtualClock()
    spec = spec or KubeletNode("a100-0", address="127.0.0.1", pod_cidr="10.244.7.0/24")
    disk = FaultyDisk(LocalDisk(), cast(Clock, clock))
    devices = ScenarioBackend(root / "hardware.yaml", clock)
    runtime = PretendedRuntime(spec.name, root, clock, Programs(programs or {}), devices)
    kubelet = Kubelet(spec, cast(KubernetesApi, api), clock, root, runtime, disk=disk)
    world = World(api, clock, root, disk, runtime, kubelet)
    task = asyncio.create_task(kubelet.run())
    try:
        ready = asyncio.ensure_future(kubelet.ready())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield world
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for plugin in world.plugins:
            await plugin.stop()
        await runtime.shutdown()


Running = Callable[..., Any]


@pytest.fixture
def start(root: Path) -> Running:
    """`async with start(spec, programs) as world`."""
    return lambda spec=None, programs=None: running(root, spec, programs)


@pytest.fixture
async def world(root: Path) -> AsyncIterator[World]:
    async with running(root) as one:
        yield one
