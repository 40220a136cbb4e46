"""The agent killed at each step from its start to its first allocation: the next one knows and does all.

The one that is killed is a process of its own; the next runs in this one.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from support.agent_context import context_of
from support.dying_agent import STEPS
from support.kubelet_side import FastClock
from support.plugin_node import PATIENCE_S, PluginNode, agent_here, allocate, plugin_node
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.kubelet.device_holders import KubeletFiles
from tonnage.agent.board import NodeBoard
from tonnage.agent.holds.hold_ledger import CHECKPOINT, HoldLedger
from tonnage.agent.options import AgentOptions
from tonnage.agent.plugin.holders import Holders
from tonnage.model.devices.sharing import Allocation
from tonnage.model.names import GPU
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as plugin
from tonnage.wire.kubelet.methods import GET_OPTIONS, LIST_AND_WATCH

pytestmark = pytest.mark.long

SHARED = (
    "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: true\n"
    "    resources: [{name: nvidia.com/gpu, replicas: 2}]\n"
)
WRITTEN = {
    "when it is written down": {"GPU-1::0"},
    "when it is written down and not answered": {"GPU-1::0"},
    "before a further answer is added": {"GPU-1::0"},
    "in the middle of adding a further answer": {"GPU-1::0"},
    "when a further answer is added": {"GPU-1::0", "GPU-1::1"},
}
"""What is noted when it is killed at a step, besides GPU-0."""


@pytest.fixture
async def node() -> AsyncIterator[PluginNode]:
    """GPU-0 was given as a whole by an agent before; now GPUs are shared."""
    async with plugin_node() as made:
        clock, disk = FastClock(), FolderCheckpoints(made.root / "var/lib/tonnage")
        context = context_of("n", None, clock, disk)
        board = NodeBoard.blank(clock)
        ledger = HoldLedger(context, board)
        before = Holders(context, board, KubeletFiles(made.root / "var/lib/kubelet"), ledger)
        await before.take([Allocation(GPU, ("GPU-0",), ("GPU-0",))])
        (made.root / "config.yaml").write_text(SHARED)
        await made.start_kubelet()
        yield made


async def start(node: PluginNode, *program: str) -> None:
    await node.start_agent("--config", str(node.root / "config.yaml"), program=program or ("tonnage",))


async def admit(node: PluginNode) -> None:
    """As kubelet does with a plugin that registers, and with two containers that want a replica of GPU-1."""
    while True:
        async with registered(node) as channel:
            method = GET_OPTIONS
            call = channel.unary_unary(
                method.path, method.request.SerializeToString, method.response.FromString
            )
            try:
                await call(plugin.Empty(), timeout=PATIENCE_S)
                await health(channel)
            except (grpc.aio.AioRpcError, StopAsyncIteration):
                continue
            await allocate(channel, "GPU-1::0")
            await allocate(channel, "GPU-1::1")


@asynccontextmanager
async def registered(node: PluginNode) -> AsyncIterator[grpc.aio.Channel]:
    """A channel of its own to the plugin that registers next: no other one's failures delay it."""
    request = await node.registered.get()
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with grpc.aio.insecure_channel(
        f"unix:{node.plugins}/{request.endpoint}", options=options
    ) as channel:
        yield channel


async def written(node: PluginNode) -> set[str]:
    disk = FolderCheckpoints(node.root / "var/lib/tonnage")
    payload = await disk.load(CHECKPOINT)
    assert payload
    return {row["id"] for rows in (payload, *await disk.load_added(CHECKPOINT)) for row in json.loads(rows)}


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


async def health(channel: grpc.aio.Channel) -> dict[str, str]:
    """Of each id, in the first list."""
    method = LIST_AND_WATCH
    stream = channel.unary_stream(method.path, method.request.SerializeToString, method.response.FromString)
    async with asyncio.timeout(PATIENCE_S):
        message = await anext(aiter(stream(plugin.Empty())))
    return {device.ID: device.health for device in message.devices}


async def is_right(node: PluginNode) -> None:
    """The agent that starts now offers what it should, and gives it."""
    while not node.registered.empty():
        node.registered.get_nowait()
    options = AgentOptions("n", f"scenario:{node.root}/hardware.yaml", node.root, node.root / "config.yaml")
    async with asyncio.timeout(PATIENCE_S), agent_here(options), registered(node) as channel:
        assert await health(channel) == {
            **{f"GPU-0::{replica}": "Unhealthy" for replica in range(2)},
            **{f"GPU-1::{replica}": "Healthy" for replica in range(2)},
        }
        assert names(node.plugins) == {"kubelet.sock", "nvidia-gpu.shared.sock"}
        assert "is held as nvidia.com/gpu" in await allocate(channel, "GPU-0::1")
        assert await allocate(channel, "GPU-1::1") == ""
    kept = names(node.root / "var/lib/tonnage")
    assert not [name for name in kept if name.startswith(".") or "damaged" in name]


@pytest.mark.parametrize("step", STEPS)
async def test_killed_at_a_step_it_starts_again_as_if_nothing_were(node: PluginNode, step: str) -> None:
    kubelet = asyncio.create_task(admit(node))
    await start(node, "support.dying_agent", step)
    assert await node.ends() == -signal.SIGKILL
    kubelet.cancel()
    await asyncio.gather(kubelet, return_exceptions=True)
    assert await written(node) == {"GPU-0", *WRITTEN.get(step, ())}
    await is_right(node)
    assert await written(node) >= {"GPU-0", "GPU-1::1"}


async def test_killed_by_the_answer_to_its_registration_it_registers_again(node: PluginNode) -> None:
    """kubelet has taken it on, and it does not know."""

    def kill() -> None:
        assert node.agent is not None
        node.agent.send_signal(signal.SIGKILL)

    node.on_register = kill
    await start(node)
    assert await node.ends() == -signal.SIGKILL
    node.on_register = None
    await is_right(node)
