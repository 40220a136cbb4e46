"""A node for an agent in this process: what a device plugin meets of a kubelet, and files to change.

The client shares no code with the agent but the generated messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.ports.clock import Clock
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as dp
from tonnage.wire.kubelet import podresources_v1_pb2 as pr

PATIENCE_S = 60.0
GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
FOUR = "version: v1\nsharing: {timeSlicing: {renameByDefault: true, failRequestsGreaterThanOne: true, "
FOUR += "resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"


class FastClock:
    """Time that passes twenty times as fast."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic() * 20

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 20)


class Kubelet:
    """The parts of a kubelet that a device plugin meets."""

    def __init__(self, root: Path) -> None:
        self.plugins = root / "var/lib/kubelet/device-plugins"
        self.resources = root / "var/lib/kubelet/pod-resources"
        self.requests: asyncio.Queue[dp.RegisterRequest] = asyncio.Queue()
        self.lists: dict[str, asyncio.Queue[dict[str, str] | None]] = {}
        self.options: dict[str, dp.DevicePluginOptions] = {}
        self.channels: dict[str, grpc.aio.Channel] = {}
        self.pods = pr.ListPodResourcesResponse()
        self.silent = False
        """Whether it does not say which pods have what."""
        self.hangs = False
        """Whether it takes that question and never answers."""
        self.advertised: dict[str, list[str]] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.servers: list[grpc.aio.Server] = []

    async def start(self) -> None:
        """As the real one: everything in the folder but the checkpoint goes, then the socket appears."""
        self.plugins.mkdir(parents=True, exist_ok=True)
        self.resources.mkdir(parents=True, exist_ok=True)
        for file in self.plugins.iterdir():
            if file.name != "kubelet_internal_checkpoint":
                file.unlink()
        await self._serve(
            self.resources / "kubelet.sock",
            "v1.PodResourcesLister",
            {
                "List": (self._list_pods, pr.ListPodResourcesRequest),
                "GetAllocatableResources": (self._list_devices, pr.AllocatableResourcesRequest),
            },
        )
        await self._serve(
            self.plugins / "kubelet.sock",
            "v1beta1.Registration",
            {"Register": (self._register, dp.RegisterRequest)},
        )

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for channel in self.channels.values():
            await channel.close()
        for server in self.servers:
            await server.stop(None)
        self.tasks, self.servers, self.channels = [], [], {}

    async def _serve(self, file: Path, service: str, methods: dict[str, tuple[Any, Any]]) -> None:
        handlers: Any = {
            method: grpc.unary_unary_rpc_method_handler(
                answer, request.FromString, lambda m: m.SerializeToString()
            )
            for method, (answer, request) in methods.items()
        }
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        new = file.with_name(
            "." + file.name
        )  # the library unlinks what it bound, so let it bind another name
        server.add_insecure_port(f"unix:{new}")
        await server.start()
        new.replace(file)
        self.servers.append(server)

    async def _list_pods(self, _request: Any, context: Any) -> pr.ListPodResourcesResponse:
        if self.silent:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "silent")
        if self.hangs:
            await asyncio.Event().wait()
        return self.pods

    async def _list_devices(self, _request: Any, _context: Any) -> pr.AllocatableResourcesResponse:
        rows = [
            pr.ContainerDevices(resource_name=resource, device_ids=[device_id])
            for resource, ids in self.advertised.items()
            for device_id in ids
        ]
        return pr.AllocatableResourcesResponse(devices=rows)

    async def _register(self, request: dp.RegisterRequest, context: Any) -> dp.Empty:
        name = request.resource_name
        if request.version != "v1beta1":
            await context.abort(grpc.StatusCode.UNKNOWN, "version")
        channel = grpc.aio.insecure_channel(
            f"unix:{self.plugins / request.endpoint}",
            options=(("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)),
        )
        if old := self.channels.pop(name, None):
            await old.close()
        self.channels[name] = channel
        self.options[name] = await self.call(
            name, "GetDevicePluginOptions", dp.Empty(), dp.DevicePluginOptions
        )
        queue = self.lists.setdefault(name, asyncio.Queue())
        self.tasks.append(asyncio.create_task(self._watch(channel, queue)))
        await self.requests.put(request)
        return dp.Empty()

    async def _watch(self, channel: grpc.aio.Channel, queue: asyncio.Queue[dict[str, str] | None]) -> None:
        stream = channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=dp.Empty.SerializeToString,
            response_deserializer=dp.ListAndWatchResponse.FromString,
        )(dp.Empty())
        with contextlib.suppress(grpc.aio.AioRpcError):
            async for message in stream:
                await queue.put({device.ID: device.health for device in message.devices})
        await queue.put(None)

    async def call(self, resource: str, method: str, request: Any, response: Any) -> Any:
        stub = self.channels[resource].unary_unary(
            f"/v1beta1.DevicePlugin/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        return await stub(request, timeout=PATIENCE_S)

    async def devices(self, resource: str, *, until: Any = lambda _devices: True) -> dict[str, str]:
        """The next list of a resource that satisfies the condition."""
        queue = self.lists.setdefault(resource, asyncio.Queue())
        async with asyncio.timeout(PATIENCE_S):
            while True:
                devices = await queue.get()
                if devices is not None and until(devices):
                    return devices

    async def registered(self, resource: str) -> dp.RegisterRequest:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                request = await self.requests.get()
                if request.resource_name == resource:
                    return request

    async def allocate(self, resource: str, *ids: str) -> dp.ContainerAllocateResponse:
        request = dp.AllocateRequest(container_requests=[dp.ContainerAllocateRequest(devices_ids=ids)])
        response = await self.call(resource, "Allocate", request, dp.AllocateResponse)
        (answer,) = response.container_responses
        return answer  # type: ignore[no-any-return]

    def show_pod(self, name: str, resource: str, *ids: str) -> None:
        devices = [pr.ContainerDevices(resource_name=resource, device_ids=ids)]
        container = pr.ContainerResources(name="main", devices=devices)
        self.pods = pr.ListPodResourcesResponse(
            pod_resources=[
                *self.pods.pod_resources,
                pr.PodResources(name=name, namespace="ml", containers=[container]),
            ]
        )


class Bench:
    """A node: its root folder, its hardware file, its configuration file, a kubelet and the agent."""

    def __init__(self, root: Path, *, gpus: int = 4, clock: Clock | None = None) -> None:
        self.root = root
        self.clock = clock or FastClock()
        self.kubelet = Kubelet(root)
        self.task: asyncio.Task[None] | None = None
        self.hardware(*(f"GPU-{i}" for i in range(gpus)))
        self.configure("version: v1\n")

    def _write(self, name: str, text: str) -> Path:
        new = self.root / f"{name}.new"
        new.write_text(text)
        return new.replace(self.root / name)

    def hardware(self, *uuids: str, **health: str) -> None:
        devices = [
            {
                "uuid": uuid,
                "model": "L40S",
                "numa": i // 2,
                "health": health.get(uuid.replace("-", "_"), "healthy"),
            }
            for i, uuid in enumerate(uuids)
        ]
        self._write("hardware.json", json.dumps({"devices": devices}))

    def configure(self, text: str) -> None:
        self._write("config.yaml", text)

    def start(self, clock: Clock | None = None) -> asyncio.Task[None]:
        options = AgentOptions(
            "node-1", f"scenario:{self.root / 'hardware.json'}", self.root, self.root / "config.yaml"
        )
        self.task = asyncio.create_task(run_agent(options, api=None, clock=clock or self.clock))
        return self.task

    async def end(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None


@contextlib.asynccontextmanager
async def bench_of(**options: Any) -> AsyncIterator[Bench]:
    """A node, and nothing of it left afterwards."""
    root = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    node = Bench(root, **options)
    try:
        yield node
    finally:
        await node.end()
        await node.kubelet.stop()
        shutil.rmtree(root)


def healthy(devices: dict[str, str]) -> set[str]:
    return {name for name, health in devices.items() if health == "Healthy"}
