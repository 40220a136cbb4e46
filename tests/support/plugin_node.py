"""A kubelet's side of a node for an agent that is a process of its own, with its log and its HTTP pages."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio

from support.connections import connection
from tonnage.adapters.clock import SystemClock
from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as plugin
from tonnage.wire.kubelet.methods import ALLOCATE, LIST_AND_WATCH, REGISTER

_TESTS = str(Path(__file__).parents[1])
"""Where modules of tests are, for programs that are started."""

PATIENCE_S = 60.0


class PluginNode:
    """A node's root folder and what happens in it. The agent's standard error is read as it comes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.plugins = root / "var/lib/kubelet/device-plugins"
        self.plugins.mkdir(parents=True)
        self.log: list[str] = []
        self.agent: asyncio.subprocess.Process | None = None
        self.registered: asyncio.Queue[plugin.RegisterRequest] = asyncio.Queue()
        self.on_register: Callable[[], None] | None = None
        """Called before kubelet answers a registration."""
        self._server: grpc.aio.Server | None = None
        self._reading: asyncio.Task[None] | None = None
        self._said = asyncio.Event()

    async def start_kubelet(self) -> None:
        """Let plugins register."""

        async def register(request: plugin.RegisterRequest, _context: object) -> plugin.Empty:
            self.registered.put_nowait(request)
            if self.on_register is not None:
                self.on_register()
            return plugin.Empty()

        _, service, method = REGISTER.path.split("/")
        handler = grpc.unary_unary_rpc_method_handler(
            register, REGISTER.request.FromString, REGISTER.response.SerializeToString
        )
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: handler}),)
        )
        self._server.add_insecure_port(f"unix:{self.plugins}/kubelet.sock")
        await self._server.start()

    async def start_agent(
        self,
        *flags: str,
        devices: str = "",
        seen_as: Path | None = None,
        within: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = ("tonnage",),
    ) -> None:
        """`within` are words of a command that runs the agent; in there the root is `seen_as`.

        `program` is a module that does as `tonnage` does, and its own words.
        """
        root = seen_as or self.root
        hardware = self.root / "hardware.yaml"
        hardware.write_text("devices:\n- {uuid: GPU-0, model: T4}\n- {uuid: GPU-1, model: T4}\n")
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
        clean["PYTHONPATH"] = os.pathsep.join([_TESTS, *filter(None, [clean.get("PYTHONPATH")])])
        self.agent = await asyncio.create_subprocess_exec(
            *(*within, sys.executable, "-m", *program, "node", "--standalone", "--node-name", "n"),
            *("--root", str(root), "--devices", devices or f"scenario:{root}/hardware.yaml", *flags),
            env=clean if environment is None else dict(environment),
            stderr=asyncio.subprocess.PIPE,
        )
        assert self.agent.stderr is not None
        self._reading = asyncio.create_task(self._read(self.agent.stderr))

    async def says(self, text: str) -> str:
        """The line of the agent's log that has the text, once it is there."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                self._said.clear()
                for line in self.log:
                    if text in line:
                        return line
                assert self._reading is None or not self._reading.done(), self.log
                await self._said.wait()

    async def port(self) -> int:
        """Where the agent serves its pages, as its log says."""
        return int((await self.says("metrics served")).rpartition(":")[2])

    async def ends(self) -> int:
        """The agent's exit status; its log is whole then."""
        assert self.agent is not None
        assert self._reading is not None
        async with asyncio.timeout(PATIENCE_S):
            status = await self.agent.wait()
            await self._reading
        return status

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[grpc.aio.Channel]:
        """To the plugin that registers next."""
        async with asyncio.timeout(PATIENCE_S):
            request = await self.registered.get()
        async with grpc.aio.insecure_channel(f"unix:{self.plugins}/{request.endpoint}") as channel:
            yield channel

    async def close(self) -> None:
        if self.agent is not None and self.agent.returncode is None:
            self.agent.send_signal(signal.SIGKILL)
            await self.ends()
        if self._server is not None:
            await self._server.stop(0)

    async def _read(self, stream: asyncio.StreamReader) -> None:
        async for line in stream:
            self.log.append(line.decode().rstrip())
            self._said.set()
        self._said.set()


@asynccontextmanager
async def agent_here(options: AgentOptions) -> AsyncIterator[asyncio.Task[None]]:
    """The agent in this process, where nothing is to be shown that a process of its own shows."""
    running = asyncio.create_task(run_agent(options, api=None, clock=SystemClock()))
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def plugin_node() -> AsyncIterator[PluginNode]:
    """A node without kubelet and agent, and nothing of it left afterwards."""
    root = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    node = PluginNode(root)
    try:
        yield node
    finally:
        await node.close()
        shutil.rmtree(root)


async def first_list(
    channel: grpc.aio.Channel,
) -> tuple[AsyncIterator[plugin.ListAndWatchResponse], set[str]]:
    """An open ListAndWatch stream and the ids of its first list."""
    stream = channel.unary_stream(
        LIST_AND_WATCH.path, LIST_AND_WATCH.request.SerializeToString, LIST_AND_WATCH.response.FromString
    )(plugin.Empty())
    async with asyncio.timeout(PATIENCE_S):
        message = await anext(aiter(stream))
    return aiter(stream), {device.ID for device in message.devices}


async def allocate(channel: grpc.aio.Channel, device: str) -> str:
    """Why it was refused; empty when it was given."""
    call = channel.unary_unary(
        ALLOCATE.path, ALLOCATE.request.SerializeToString, ALLOCATE.response.FromString
    )
    asked = plugin.ContainerAllocateRequest(devices_ids=[device])
    try:
        await call(plugin.AllocateRequest(container_requests=[asked]), timeout=PATIENCE_S)
    except grpc.aio.AioRpcError as error:
        return error.details() or "refused"
    return ""


async def page(port: int, path: str) -> tuple[int, str]:
    """Status and body of one of the agent's pages."""
    opening = asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(PATIENCE_S), connection(opening) as (reader, writer):
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        answer = (await reader.read()).decode()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), body


async def becomes_ready(port: int) -> None:
    """Return once the agent says that it is ready."""
    async with asyncio.timeout(PATIENCE_S):
        while (await page(port, "/readyz"))[0] != 200:
            pass
