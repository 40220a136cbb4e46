"""A node for the tests: a small API in memory, a device plugin of our own over real gRPC, a virtual clock."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from support.kubelet_bench import KubeletBench
from support.kubelet_dialer import Dialer
from support.memory_api import MemoryApi
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


@pytest.fixture
def root() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@asynccontextmanager
async def running(
    root: Path, spec: KubeletNode | None = None, programs: dict[str, Program] | None = None
) -> AsyncIterator[KubeletBench]:
    api, clock = MemoryApi(), VirtualClock()
    spec = spec or KubeletNode("a100-0", address="127.0.0.1", pod_cidr="10.244.7.0/24")
    disk = FaultyDisk(LocalDisk(), cast(Clock, clock))
    devices = ScenarioBackend(root / "hardware.yaml", clock)
    runtime = PretendedRuntime(spec.name, root, clock, Programs(programs or {}), devices)
    kubelet = Kubelet(spec, cast(KubernetesApi, api), clock, root, runtime, disk=disk)
    bench = KubeletBench(api, clock, root, disk, runtime, kubelet)
    task = asyncio.create_task(kubelet.run())
    try:
        ready = asyncio.ensure_future(kubelet.ready())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield bench
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for plugin in bench.plugins:
            await plugin.stop()
        await runtime.shutdown()


Running = Callable[..., Any]


@pytest.fixture
def start(root: Path) -> Running:
    """`async with start(spec, programs) as bench`."""
    return lambda spec=None, programs=None: running(root, spec, programs)


@pytest.fixture
async def bench(root: Path) -> AsyncIterator[KubeletBench]:
    async with running(root) as one:
        yield one


@pytest.fixture
async def dial(bench: KubeletBench, root: Path) -> AsyncIterator[Dialer]:
    ca = Authority.generate(datetime.now(UTC))
    server = KubeletServer(ca.certificate_pem, ca.issue("kubelet", hosts=["127.0.0.1"], server=True))
    port = await server.listen(bench.kubelet)
    async with AsyncExitStack() as connections:
        yield Dialer(port, ca, root, connections)
    await server.close()
