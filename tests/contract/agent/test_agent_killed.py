"""The agent as a process of its own, killed with SIGKILL around its answer: what it gave stays given."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from support.plugin_node import agent_here
from tonnage.agent.options import AgentOptions
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as plugin
from tonnage.wire.kubelet.methods import ALLOCATE, HEALTHY, LIST_AND_WATCH, REGISTER

PATIENCE_S = 60.0
WHOLE = "version: v1\n"
SHARED = (
    "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: true\n"
    "    resources: [{name: nvidia.com/gpu, replicas: 2}]\n"
)


class Node:
    """A kubelet's side of a node, and an agent that can be started and killed on it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._plugins = root / "var/lib/kubelet/device-plugins"
        self._plugins.mkdir(parents=True)
        (root / "hardware.yaml").write_text(
            "devices:\n- {uuid: GPU-0, model: T4}\n- {uuid: GPU-1, model: T4}\n"
        )
        self._registered: asyncio.Queue[plugin.RegisterRequest] = asyncio.Queue()
        self._server = grpc.aio.server()
        self.agent: asyncio.subprocess.Process | None = None

    async def start_kubelet(self) -> None:
        async def register(request: plugin.RegisterRequest, _context: object) -> plugin.Empty:
            self._registered.put_nowait(request)
            return plugin.Empty()

        _, service, method = REGISTER.path.split("/")
        handler = grpc.unary_unary_rpc_method_handler(
            register, REGISTER.request.FromString, REGISTER.response.SerializeToString
        )
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(service, {method: handler})]
        )
        self._server.add_insecure_port(f"unix:{self._plugins}/kubelet.sock")
        await self._server.start()

    async def start_agent(self, config: str, resource: str) -> grpc.aio.Channel:
        """A channel to the plugin that the new agent registers for `resource`; it may begin with another."""
        (self._root / "config.yaml").write_text(config)
        self.agent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tonnage", "node", "--standalone", "--node-name", "n"),
            *("--root", str(self._root), "--config", f"{self._root}/config.yaml"),
            *("--devices", f"scenario:{self._root}/hardware.yaml"),
            env={name: value for name, value in os.environ.items() if not name.startswith("KUBE")},
            stderr=asyncio.subprocess.DEVNULL,
        )
        return await self._registers(resource)

    async def _registers(self, resource: str) -> grpc.aio.Channel:
        async with asyncio.timeout(PATIENCE_S):
            while (request := await self._registered.get()).resource_name != resource:
                pass
        return grpc.aio.insecure_channel(f"unix:{self._plugins}/{request.endpoint}")

    @asynccontextmanager
    async def next_agent(self, config: str, resource: str) -> AsyncIterator[grpc.aio.Channel]:
        """As `start_agent`, of an agent in this process."""
        file = self._root / "config.yaml"
        file.write_text(config)
        options = AgentOptions("n", f"scenario:{self._root}/hardware.yaml", self._root, file)
        async with agent_here(options), await self._registers(resource) as channel:
            yield channel

    async def kill_agent(self) -> None:
        if self.agent is not None and self.agent.returncode is None:
            self.agent.send_signal(signal.SIGKILL)
            await self.agent.wait()

    async def stop(self) -> None:
        await self.kill_agent()
        await self._server.stop(0)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    root = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    node = Node(root)
    await node.start_kubelet()
    try:
        yield node
    finally:
        await node.stop()
        shutil.rmtree(root)


async def _allocate(channel: grpc.aio.Channel, device: str) -> bool:
    """Whether an answer came."""
    call = channel.unary_unary(
        ALLOCATE.path, ALLOCATE.request.SerializeToString, ALLOCATE.response.FromString
    )
    request = plugin.AllocateRequest(
        container_requests=[plugin.ContainerAllocateRequest(devices_ids=[device])]
    )
    try:
        await call(request)
    except grpc.aio.AioRpcError:
        return False
    return True


async def _free_devices(channel: grpc.aio.Channel) -> set[str]:
    """Physical devices of which the first list offers anything."""
    stream = channel.unary_stream(
        LIST_AND_WATCH.path, LIST_AND_WATCH.request.SerializeToString, LIST_AND_WATCH.response.FromString
    )(plugin.Empty())
    async for message in stream:
        stream.cancel()
        return {device.ID.partition("::")[0] for device in message.devices if device.health == HEALTHY}
    raise AssertionError("the stream ended without a list")


@pytest.mark.parametrize("delay_s", [None, 0.0, 0.002, 0.004, 0.008], ids=lambda delay_s: f"after {delay_s}")
async def test_what_a_killed_agent_answered_is_free_under_no_other_name(
    node: Node, delay_s: float | None
) -> None:
    """`delay_s` after the question comes the kill; None: once the answer is there."""
    async with await node.start_agent(WHOLE, "nvidia.com/gpu") as channel:
        assert await _free_devices(channel) == {"GPU-0", "GPU-1"}
        asking = asyncio.create_task(_allocate(channel, "GPU-0"))
        await (asyncio.wait({asking}) if delay_s is None else asyncio.sleep(delay_s))
        await node.kill_agent()
        answered = await asking
    assert answered or delay_s is not None
    async with node.next_agent(SHARED, "nvidia.com/gpu.shared") as channel:
        free = await _free_devices(channel)
    assert "GPU-1" in free
    # An answer that never reached kubelet may count as held; one that did must.
    assert not (answered and "GPU-0" in free)
