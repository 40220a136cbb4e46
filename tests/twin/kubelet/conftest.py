"""A node for the tests: a small API in memory, a device plugin of our own over real gRPC, a virtual clock."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from support.fake_plugin import GPU, FakePlugin
from support.kubelet_dialer import Dialer
from support.memory_api import Body, MemoryApi
from tonnage.adapters.certificates import Authority
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.clock import VirtualClock
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.twin.kubelet.containers.runtime import PretendedRuntime
from tonnage.twin.kubelet.containers.runtime_port import Program
from tonnage.twin.kubelet.kubelet import Kubelet
from tonnage.twin.kubelet.node_disk import FaultyDisk, LocalDisk
from tonnage.twin.kubelet.node_spec import KubeletNode
from tonnage.twin.kubelet.programs.image_programs import Programs
from tonnage.twin.kubelet.server import KubeletServer
from tonnage.wire import kinds


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


@pytest.fixture
async def dial(world: World, root: Path) -> AsyncIterator[Dialer]:
    ca = Authority.generate(datetime.now(UTC))
    server = KubeletServer(ca.certificate_pem, ca.issue("kubelet", hosts=["127.0.0.1"], server=True))
    port = await server.listen(world.kubelet)
    async with AsyncExitStack() as connections:
        yield Dialer(port, ca, root, connections)
    await server.close()
