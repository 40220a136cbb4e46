"""The two control planes on which the controller is measured, each with what it needs, and the controller."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.cluster import TONNAGE
from benchmarks.control_planes import served_plane
from benchmarks.operating.pretended_nodes import NAMESPACE
from tonnage.decide.cluster.operate.node_pod import PRIORITY_CLASS
from tonnage.documents.node.gpu_status import node_gpu_status_crd
from tonnage.model.catalog.nvidia_kinds import nvidia_definition
from tonnage.model.errors import ApiError
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import CLUSTER_POLICY, CUSTOM_RESOURCE, NODE_GPU_STATUS
from tonnage.wire.kinds import NAMESPACE as NAMESPACE_KIND
from tonnage.wire.kinds import PRIORITY_CLASS as PRIORITY_CLASS_KIND

_COMES_UP_S: Final = 300.0
_REQUESTS: Final = re.compile(r"^tonnage_controller_api_requests_total\{(.*)\} ([0-9.]+)$", re.MULTILINE)
_VALUES: Final = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class Plane:
    """A control plane that serves: how it is reached, and its processes."""

    kubeconfig: Path
    pids: tuple[int, ...]

    def cpu_s(self) -> float:
        """What its processes have used of a core."""
        return sum(map(cpu_s, self.pids))


@contextmanager
def twin_plane(loops: bool, at_rest: int) -> Iterator[Plane]:
    """A twin with nodes `at_rest`; without `loops` nobody makes pods for DaemonSets."""
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "benchmarks.operating.twin_plane", str(kubeconfig)]
    process = subprocess.Popen([*command, str(at_rest), *(["loops"] if loops else [])])
    try:
        deadline = time.monotonic() + _COMES_UP_S
        while not kubeconfig.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError("the twin did not come up")
            time.sleep(0.05)
        yield Plane(kubeconfig, (process.pid,))
    finally:
        process.terminate()
        process.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def genuine_plane(binaries: Path, loops: bool, _at_rest: int) -> Iterator[Plane]:
    """Etcd, API server and, with `loops`, the two others, at their default rates."""
    with served_plane(binaries, "TaintNodesByCondition") as (plane, kubeconfig):
        # Nobody sends the nodes' heartbeats, so nobody may miss them.
        if loops:
            left_out = "-node-lifecycle-controller,-taint-eviction-controller"
            plane.run_loops(of_manager=[f"--controllers=*,{left_out}"])
        yield Plane(kubeconfig, tuple(plane.pids.values()))


async def install(api: KubernetesApi) -> None:
    """The definitions and namespaces, but no policy yet."""
    definitions = (nvidia_definition(plural) for plural in ("clusterpolicies", "gpuclusters"))
    for definition in (node_gpu_status_crd(), *definitions):
        await api.create(CUSTOM_RESOURCE, definition)
    for name in ("tonnage-system", NAMESPACE):
        await api.create(NAMESPACE_KIND, {"metadata": {"name": name}})
    last: Any = {"metadata": {"name": PRIORITY_CLASS}, "value": -1_000_000, "preemptionPolicy": "Never"}
    await api.create(PRIORITY_CLASS_KIND, last)
    async with asyncio.timeout(_COMES_UP_S):
        for kind in (CLUSTER_POLICY, NODE_GPU_STATUS):
            while not await _is_served(api, kind):  # noqa: ASYNC110 - nobody tells it
                await asyncio.sleep(0.2)


async def _is_served(api: KubernetesApi, kind: Any) -> bool:
    try:
        await api.list(kind)
    except ApiError:
        return False
    return True


@dataclass
class Controller:
    """The process, and what it says of itself."""

    process: subprocess.Popen[bytes]
    address: str

    def page(self) -> str:
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=30) as answer:
            content: bytes = answer.read()
        return content.decode()

    async def requests(self) -> Counter[str]:
        """How many the API server has answered, by verb, resource and status."""
        page = await asyncio.to_thread(self.page)
        counts: Counter[str] = Counter()
        for labels, count in _REQUESTS.findall(page):
            of = dict(_VALUES.findall(labels))
            counts[f"{of['verb']} {of['resource']} {of['code']}"] += int(float(count))
        return counts

    def memory_mb(self) -> tuple[float, float]:
        """Now and at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = dict(line.split(":", 1) for line in status.splitlines())
        now, most = (int(found[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
        return now, most

    def cpu_s(self) -> float:
        return cpu_s(self.process.pid)


def cpu_s(pid: int) -> float:
    """What a process has used of a core since it was started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def controller(kubeconfig: Path, *arguments: str) -> AsyncIterator[Controller]:
    """`tonnage controller` as its Deployment runs it; ready when this begins."""
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [TONNAGE, "controller", "--metrics-address", address, "--identity", "bench"]
    command += ["--operand-image", "registry.example.com/tonnage:1", "--evict-rejected-pods", *arguments]
    process = subprocess.Popen(  # noqa: ASYNC220 - once
        command, env=os.environ | {"KUBECONFIG": str(kubeconfig)}, stderr=subprocess.DEVNULL
    )
    try:
        yield Controller(process, address)
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 30)
