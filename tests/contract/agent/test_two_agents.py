"""Two agents on a node: the second touches nothing, waits for the first and takes over from it, or ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import grpc.aio
import pytest

from support.kubelet_side import GPU, Bench, FastClock, bench_of
from support.looking import until
from support.plugin_node import PATIENCE_S, PluginNode, allocate, first_list, plugin_node
from tonnage.adapters.node_lock import alone_on
from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.model.errors import HardwareError

SHARED = (
    "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: true\n"
    "    resources: [{name: nvidia.com/gpu, replicas: 2}]\n"
)


@pytest.fixture
async def node() -> AsyncIterator[PluginNode]:
    async with plugin_node() as made:
        await made.start_kubelet()
        yield made


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_of() as made:
        yield made


def identities(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_ino for file in folder.iterdir() if not file.name.startswith(".")}


async def until_registered(node: PluginNode, resource: str) -> None:
    """It begins as the first one was configured, so the resource may come second."""
    async with asyncio.timeout(PATIENCE_S):
        while (await node.registered.get()).resource_name != resource:
            pass


async def at_the_lock(node: PluginNode, process: asyncio.subprocess.Process) -> None:
    """Return once the agent has the lock's file open: it can only be waiting."""
    await until(lambda: open_files(process.pid, node.root / "var/lib/tonnage/agent.lock"))


def open_files(pid: int, file: Path) -> list[int]:
    """The process's handles of that file; others may close while they are looked at."""
    found = []
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if handle.readlink() == file:
                found.append(int(handle.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_the_second_waits_and_takes_over_what_the_first_knew(
    node: PluginNode, number: signal.Signals
) -> None:
    await node.start_agent()
    first = node.agent
    assert first is not None
    async with node.channel() as channel:
        _, ids = await first_list(channel)
        assert ids == {"GPU-0", "GPU-1"}
        (node.root / "config.yaml").write_text(SHARED)
        before = identities(node.plugins)
        await node.start_agent("--config", str(node.root / "config.yaml"))
        assert node.agent is not None
        await at_the_lock(node, node.agent)
        assert await allocate(channel, "GPU-0") == ""
        assert identities(node.plugins) == before
        assert node.registered.empty()
        first.send_signal(number)
        async with asyncio.timeout(PATIENCE_S):
            await first.wait()
    await until_registered(node, "nvidia.com/gpu.shared")
    async with grpc.aio.insecure_channel(f"unix:{node.plugins}/nvidia-gpu.shared.sock") as channel:
        _, ids = await first_list(channel)
        assert ids == {"GPU-0::0", "GPU-0::1", "GPU-1::0", "GPU-1::1"}
        assert "GPU-0::0 is held as nvidia.com/gpu" in await allocate(channel, "GPU-0::0")
        assert await allocate(channel, "GPU-1::0") == ""


def lasting(root: Path) -> set[Path]:
    """Files and folders, without those that become others when they are written."""
    return {path for path in root.rglob("*") if not path.name.startswith(".")}


async def test_the_one_that_is_refused_leaves_the_first_alone(bench: Bench) -> None:
    await bench.kubelet.start()
    bench.start()
    await bench.kubelet.registered(GPU)
    before, files = identities(bench.kubelet.plugins), lasting(bench.root)
    options = AgentOptions(
        "node-1", f"scenario:{bench.root / 'hardware.json'}", bench.root, metrics_address="127.0.0.1:0"
    )
    with pytest.raises(HardwareError, match="another agent runs on this node") as caught:
        await run_agent(options, api=None, clock=FastClock())
    assert "stop it first" in str(caught.value)
    assert identities(bench.kubelet.plugins) == before
    assert files <= lasting(bench.root)  # the first goes on and may write more
    assert bench.kubelet.requests.empty()
    await bench.kubelet.allocate(GPU, "GPU-0")


async def test_a_file_that_a_dead_agent_left_locks_nobody_out(tmp_path: Path) -> None:
    file = tmp_path / "agent.lock"
    file.write_text("1\n")
    async with asyncio.timeout(PATIENCE_S), alone_on(file, FastClock()):
        pass


async def test_a_lock_whose_file_was_removed_by_the_one_before_is_taken_anew(tmp_path: Path) -> None:
    """Who waits for a file that is gone by then must not believe that it is alone."""
    file = tmp_path / "agent.lock"
    async with alone_on(file, FastClock()):
        waiting = asyncio.create_task(_hold(file))
        await asyncio.sleep(0)
        file.unlink()
    async with asyncio.timeout(PATIENCE_S):
        assert await waiting == file.stat().st_ino


async def _hold(file: Path) -> int:
    async with alone_on(file, FastClock()):
        (handle,) = open_files(os.getpid(), file)
        return os.fstat(handle).st_ino
