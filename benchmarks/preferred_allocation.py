"""How long a preferred allocation takes at every size: the search alone, and asked over gRPC as kubelet asks.

Beside it NVIDIA's objective (all free GPUs divided into sets of the size, for the greatest sum over pairs) as
a dynamic program of our own in the same language: what that objective costs at its best, not what their
plugin takes, which enumerates the divisions. A figure's values are sizes 1 to n: its most is the worst size.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import combinations
from pathlib import Path

import grpc

from benchmarks.plugin_sides import TONNAGE, without_cluster
from tonnage.adapters.kubelet.plugin_server import PluginServer
from tonnage.decide.node.allocate import not_offered
from tonnage.decide.node.preference.links import link_matrix
from tonnage.decide.node.preference.whole_devices import (
    DeviceTopology,
    finished,
    prefer_whole,
    topology_of,
    worked_out,
)
from tonnage.model.devices.inventory import Device
from tonnage.model.devices.links import NVSWITCH, Link, LinkMatrix, PciLevel
from tonnage.model.devices.sharing import Advertisement, DeviceSlot, Injection
from tonnage.model.names import GPU
from tonnage.model.reasons.reason import Reason
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as plugin
from tonnage.wire.kubelet.methods import GET_PREFERRED

AGENT_NODES = {"8 H100": (8, "H100-80"), "16 L40S": (16, "L40S"), "64 H100": (64, "H100-80")}
CALLS = 100
MANY = (1, 2, 3, 4, 7, 8, 12, 16, 24, 32, 48, 63, 64)
"""The sizes of more than 16 devices."""


def mixed(count: int) -> LinkMatrix:
    """Devices that are all different, with many sets of equal quality: the hardest to search."""
    rng = random.Random(count)
    best = [[0] * count for _ in range(count)]
    for i, j in combinations(range(count), 2):
        best[i][j] = best[j][i] = rng.choice([99, 99, 400])
    rows = tuple(map(tuple, best))
    near = tuple(tuple(min(value, 99) for value in row) for row in rows)
    return LinkMatrix(tuple(f"GPU-{i}" for i in range(count)), rows, near)


def boards(count: int, each: int) -> LinkMatrix:
    """Boards of devices; of too many kinds for tables when there are many."""
    devices = [Device(f"GPU-{i}", i, "", 0, numa_node=i * 2 // count) for i in range(count)]
    same = [(a, b) for a in range(count) for b in range(count) if a // each == b // each and a != b]
    return link_matrix(devices, [Link(f"GPU-{a}", f"GPU-{b}", 0, PciLevel.BOARD) for a, b in same])


def switched(count: int) -> LinkMatrix:
    """All over NVSwitch, in two NUMA nodes."""
    devices = [Device(f"GPU-{i}", i, "", 0, "9.0", numa_node=i * 2 // count) for i in range(count)]
    return link_matrix(devices, [Link(device.uuid, NVSWITCH, 18) for device in devices])


MATRICES: dict[str, Callable[[], LinkMatrix]] = {
    "8 different GPUs": lambda: mixed(8),
    "16 different GPUs": lambda: mixed(16),
    "64 GPUs on NVSwitch": lambda: switched(64),
    "64 parts of 8 boards": lambda: boards(64, 8),
}


def measure(rounds: int) -> dict[str, list[float]]:
    """Milliseconds, one value for each size; seconds where the figure says so."""
    figures: dict[str, list[float]] = {}
    builds = [_built(mixed(16)) for _ in range(rounds)]
    figures["tables of 16 different GPUs, s (wanted: under 2)"] = [took for took, _ in builds]
    figures["  its longest step, ms"] = [longest for _, longest in builds]
    for name, matrix in MATRICES.items():
        known, unknown = _known(matrix()), topology_of(matrix())
        figures[f"the search alone, {name}, ms"] = _per_size(known)
        if known.tables is not None and len(known.pairs) > 8:
            figures[f"  before there are tables, {name}, ms"] = _per_size(unknown)
        if len(known.pairs) == 16:
            figures["  NVIDIA's objective as our dynamic program, ms"] = [
                _timed(partial(_divided, known.matrix, size)) for size in range(1, 17)
            ]
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        figures |= _served(Path(folder))
    for name, (count, model) in AGENT_NODES.items():
        figures |= _agent(name, count, model)
    return figures


def _built(matrix: LinkMatrix) -> tuple[float, float]:
    """(seconds in all, milliseconds of the longest step)."""
    steps, started = list[float](), time.perf_counter()
    before = started
    for _ in worked_out(topology_of(matrix)):
        now = time.perf_counter()
        steps.append((now - before) * 1000)
        before = now
    return time.perf_counter() - started, max(steps)


def _known(matrix: LinkMatrix) -> DeviceTopology:
    return finished(worked_out(topology_of(matrix)))


def _per_size(topology: DeviceTopology) -> list[float]:
    uuids = topology.matrix.uuids
    return [
        statistics.median(_timed(partial(prefer_whole, topology, uuids, (), size)) for _ in range(5))
        for size in _sizes(len(uuids))
    ]


def _sizes(count: int) -> Sequence[int]:
    return range(1, count + 1) if count <= 16 else MANY


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


def _divided(matrix: LinkMatrix, size: int) -> int:
    """The greatest sum over the pairs of all sets when every device is in a set but the fewest possible."""
    count = len(matrix.uuids)
    rows, sums = matrix.best, [0] * (1 << count)
    for mask in range(1, 1 << count):
        low = (mask & -mask).bit_length() - 1
        rest = mask & (mask - 1)
        sums[mask] = sums[rest] + sum(rows[low][i] for i in range(count) if rest >> i & 1)

    @cache
    def best(mask: int) -> int:
        if mask.bit_count() < size:
            return 0
        low = mask & -mask
        others = [1 << i for i in range(count) if (mask ^ low) >> i & 1]
        sets = (low + sum(rest) for rest in combinations(others, size - 1))
        value = max(sums[each] + best(mask ^ each) for each in sets)
        return max(value, best(mask ^ low)) if mask.bit_count() % size else value

    return best((1 << count) - 1)


# ---- over gRPC


class _Preferring:
    """A plugin that only prefers."""

    def __init__(self, topology: DeviceTopology) -> None:
        self._topology = topology

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[Injection, ...] | Reason:
        return not_offered("none")

    async def prefer(self, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
        return prefer_whole(self._topology, available, required, size)


async def _serve(folder: Path) -> None:
    for name, matrix in MATRICES.items():
        topology = _known(matrix())
        slots = tuple(DeviceSlot(uuid, uuid) for uuid in topology.matrix.uuids)
        file = folder / f"{name.replace(' ', '-')}.sock"
        server = PluginServer(file, Advertisement(GPU, slots), _Preferring(topology))
        await server.start()
    (folder / "ready").touch()
    await asyncio.Event().wait()


def _served(folder: Path) -> dict[str, list[float]]:
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.preferred_allocation", str(folder)])
    try:
        _wait_for(folder / "ready")
        figures: dict[str, list[float]] = {}
        for name, matrix in MATRICES.items():
            socket = folder / f"{name.replace(' ', '-')}.sock"
            figures |= _asked(f"over gRPC, {name}", socket, matrix().uuids)
        return figures
    finally:
        process.terminate()
        process.wait(30)


def _agent(name: str, count: int, model: str) -> dict[str, list[float]]:
    root = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    plugins = root / "var/lib/kubelet/device-plugins"
    plugins.mkdir(parents=True)
    devices = [f"- {{uuid: GPU-{i}, model: {model}, numa: {i * 4 // count}}}\n" for i in range(count)]
    (root / "hardware.yaml").write_text("devices:\n" + "".join(devices))
    command = [TONNAGE, "node", "--node-name", "bench", "--root", str(root), "--standalone", "--devices"]
    agent = subprocess.Popen(
        [*command, f"scenario:{root}/hardware.yaml"], env=without_cluster(), stderr=subprocess.DEVNULL
    )
    try:
        socket = plugins / "nvidia-gpu.sock"
        _wait_for(socket)
        time.sleep(2)
        return _asked(f"a whole agent, {name}", socket, [f"GPU-{i}" for i in range(count)])
    finally:
        agent.terminate()
        agent.wait(30)
        shutil.rmtree(root)


def _asked(what: str, socket: Path, uuids: Sequence[str]) -> dict[str, list[float]]:
    """p50 and p99 of every size, all devices free."""
    middle, late = list[float](), list[float]()
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        call = channel.unary_unary(
            GET_PREFERRED.path,
            request_serializer=GET_PREFERRED.request.SerializeToString,
            response_deserializer=GET_PREFERRED.response.FromString,
        )
        for size in _sizes(len(uuids)):
            asked = plugin.ContainerPreferredAllocationRequest(
                available_deviceIDs=uuids, allocation_size=size
            )
            request = plugin.PreferredAllocationRequest(container_requests=[asked])
            call(request)
            took = sorted(_timed(partial(call, request)) for _ in range(CALLS))
            middle.append(statistics.median(took))
            late.append(took[int(len(took) * 0.99)])
    return {f"{what}: p50, ms": middle, f"{what}: p99, ms": late}


def _wait_for(file: Path) -> None:
    deadline = time.monotonic() + 60
    while not file.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(file)
        time.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
