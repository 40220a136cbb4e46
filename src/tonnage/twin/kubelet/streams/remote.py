"""Commands run from afar: what is asked, the streams of a session, and the Status that ends it.

Both transports (WebSocket and SPDY) stand on this. Source: k8s.io/kubelet/pkg/cri/streaming/remotecommand.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tonnage.twin.kubelet.containers.logs import ContainerLog
from tonnage.twin.kubelet.containers.runtime_port import ContainerRuntime, ExecError, RunningContainer

_BUFFERED_LIMIT: Final = 16 << 20
_UNREAD_LIMIT: Final = 1 << 20
SUCCESS: Final[Mapping[str, Any]] = {"metadata": {}, "status": "Success"}


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """Which streams the client wants, and for exec the command; attach has none."""

    command: tuple[str, ...]
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @classmethod
    def parse(cls, query: Sequence[tuple[str, str]]) -> RemoteRequest:
        """From the query of a request to a kubelet, whose switches are on where they are 1."""
        values = {key for key, value in query if value == "1"}
        tty = "tty" in values
        return cls(
            tuple(value for key, value in query if key == "command"),
            "input" in values,
            "output" in values,
            "error" in values and not tty,
            tty,
        )


class RemoteStdio:
    """The program's end of a session: input fed by the transport, output taken by it as (stream, data).

    A client that does not read loses the session once 16 MiB wait for it. A program that does not read makes
    the transport wait for `room`.
    """

    def __init__(self) -> None:
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._output: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._waiting = 0
        self._unread = 0
        self._room = asyncio.Event()
        self._room.set()
        self.overrun = asyncio.Event()

    async def read(self) -> bytes:
        content = await self._input.get()
        self._unread -= len(content)
        if self._unread < _UNREAD_LIMIT:
            self._room.set()
        return content

    def write(self, content: bytes) -> None:
        self._send("stdout", content)

    def write_error(self, content: bytes) -> None:
        self._send("stderr", content)

    def feed(self, content: bytes) -> None:
        """Give the program input, an empty piece at its end; then wait for `room` before the next."""
        self._unread += len(content)
        if self._unread >= _UNREAD_LIMIT:
            self._room.clear()
        self._input.put_nowait(content)

    async def room(self) -> None:
        """Return when less than 1 MiB of input waits to be read."""
        await self._room.wait()

    async def next_output(self) -> tuple[str, bytes]:
        """The next output; stream "" means that there is no more."""
        stream, content = await self._output.get()
        self._waiting -= len(content)
        return stream, content

    def finish(self) -> None:
        """The program has ended."""
        self._output.put_nowait(("", b""))

    def _send(self, stream: str, content: bytes) -> None:
        self._waiting += len(content)
        if self._waiting > _BUFFERED_LIMIT:
            self.overrun.set()
        elif content:
            self._output.put_nowait((stream, content))


async def run_session(
    runtime: ContainerRuntime, container: RunningContainer, request: RemoteRequest, stdio: RemoteStdio
) -> Mapping[str, Any]:
    """Run the command, or attach to the container, and return the Status that the client gets."""
    if not request.stdin:
        stdio.feed(b"")
    try:
        if not request.command:
            await _attach(runtime, container, stdio, takes_input=request.stdin)
            return SUCCESS
        code = await runtime.execute(container, request.command, stdio, interactive=request.tty)
    except ExecError as error:
        return _start_status(error, container)
    finally:
        stdio.finish()
    return SUCCESS if code == 0 else _exit_status(request.command, code)


async def _attach(
    runtime: ContainerRuntime, container: RunningContainer, stdio: RemoteStdio, *, takes_input: bool
) -> None:
    """Show the output of a container and give it input, if it has any, until it ends.

    The end of the client's input is the container's (`stdinOnce`), or else the end of this session alone.
    """
    output = asyncio.ensure_future(_copy_log(container.log, stdio))
    target = runtime.attach(container) if takes_input else None
    spec = container.config.container
    once = spec.stdin_once and not spec.tty
    tasks = {output}
    ends = {output}
    if target is not None:
        copying = asyncio.ensure_future(_copy_input(stdio, target.write, once=once))
        tasks.add(copying)
        ends = ends if once else tasks
    try:
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


async def _copy_input(stdio: RemoteStdio, write: Any, *, once: bool) -> None:
    while content := await stdio.read():
        write(content)
    if once:
        write(b"")


async def _copy_log(log: ContainerLog, stdio: RemoteStdio) -> None:
    at = log.end
    while True:
        await log.wait(at)
        for line in log.since(at):
            (stdio.write if line.stream == "stdout" else stdio.write_error)(line.text)
        at = log.end
        if log.closed:
            return


def _start_status(error: ExecError, container: RunningContainer) -> Mapping[str, Any]:
    """The process never ran, so there is no exit code: in containerd's and the kubelet's words."""
    message = (
        "Internal error occurred: error executing command in container: failed to exec in container: "
        f'failed to start exec "{hashlib.sha256(container.id.encode()).hexdigest()}": {error}'
    )
    return {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "InternalError",
        "details": {"causes": [{"message": message.removeprefix("Internal error occurred: ")}]},
        "code": 500,
    }


def _exit_status(command: tuple[str, ...], code: int) -> Mapping[str, Any]:
    shown = " ".join(command)
    return {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code: "
        f"error executing command [{shown}], exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
