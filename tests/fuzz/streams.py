"""What comes over connections: frames of exec and attach, requests to kubelets and the agent, archives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Final, cast

from starlette.datastructures import QueryParams
from starlette.websockets import WebSocket
from uvicorn.server import ServerState

from tonnage.adapters.http.server import (
    Connection,
    HttpRequest,
    Response,
    Route,
    RouteApplication,
    ServerLimits,
    configured,
)
from tonnage.adapters.http.server import lines as page
from tonnage.adapters.kubernetes.answers import lines
from tonnage.twin.apiserver.serving.kubelets.pod_streams import _in_server_words
from tonnage.twin.kubelet.containers.files import FileTree
from tonnage.twin.kubelet.programs.arithmetic import evaluate
from tonnage.twin.kubelet.programs.file_commands import tar
from tonnage.twin.kubelet.programs.shell_syntax import parse_script
from tonnage.twin.kubelet.programs.shell_words import ShellUnsupportedError
from tonnage.twin.kubelet.streams.container_logs import LogQuery
from tonnage.twin.kubelet.streams.remote import RemoteRequest, RemoteStdio
from tonnage.twin.kubelet.streams.spdy import SpdyCodec, SpdyError
from tonnage.twin.kubelet.streams.spdy_session import _SpdySession
from tonnage.twin.kubelet.streams.websocket import _receive, choose_subprotocol

Target = Callable[[bytes], None]
_REQUEST: Final = RemoteRequest(("sh",), stdin=True, stdout=True, stderr=True, tty=False)
_NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Wire:
    """A transport that keeps nothing of what is written."""

    def __init__(self) -> None:
        self.closed = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_, **__: None

    def abort(self) -> None:
        self.closed = True

    close = abort

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, _name: str, default: object = None) -> object:
        return default


def spdy(data: bytes) -> None:
    """Frames in one piece, and in pieces, which must come to the same."""
    whole = _frames(data, len(data) or 1)
    if len(data) < 2000:
        assert _frames(data, 3) == whole


def _frames(data: bytes, piece: int) -> list[object]:
    codec, found = SpdyCodec(), list[object]()
    with suppress(SpdyError):
        for at in range(0, len(data), piece):
            found += codec.receive(data[at : at + piece])
    return found


@contextmanager
def spdy_session() -> Iterator[Target]:
    """A session's frames, and the input that they bring."""
    with asyncio.Runner() as runner:

        async def fed(data: bytes) -> None:
            session = _SpdySession(cast("Any", Wire()), _REQUEST)
            session.data_received(data)
            session.connection_lost(None)

        yield lambda data: runner.run(fed(data))


@contextmanager
def websocket() -> Iterator[Target]:
    """Messages of exec over WebSocket, split at newlines; the last one ends it."""
    with asyncio.Runner() as runner:

        async def fed(data: bytes) -> None:
            pieces = [{"type": "websocket.receive", "bytes": piece} for piece in data.split(b"\n")]
            messages = iter((*pieces, {"type": "websocket.receive", "text": data.decode("latin-1")}))
            stdio = RemoteStdio()

            async def receive() -> Any:
                if len(stdio._output._queue):  # type: ignore[attr-defined]
                    raise AssertionError("input is output")
                while not stdio._input.empty():
                    await stdio.read()
                return next(messages, {"type": "websocket.disconnect"})

            await _receive(cast("WebSocket", SimpleNamespace(receive=receive)), stdio)

        yield lambda data: runner.run(fed(data))


def kubelet_query(data: bytes) -> None:
    """The query of exec, attach and logs."""
    query = QueryParams(data.decode("latin-1"))
    RemoteRequest.parse(query.multi_items())
    with suppress(ValueError):
        LogQuery.parse(query, _NOON)
    choose_subprotocol([name for name, _ in query.multi_items()])


def told_by_kubelet(data: bytes) -> None:
    """The last message of a kubelet's session."""
    _in_server_words(b"\x03" + data)


@contextmanager
def watch_lines() -> Iterator[Target]:
    """A watch in pieces, split at NUL."""

    async def read(data: bytes) -> None:
        async def chunks() -> Any:
            for piece in data.split(b"\0"):
                yield piece

        joined = [line async for line in lines(chunks())]
        assert joined == [line for line in data.replace(b"\0", b"").split(b"\n") if line.strip()]

    with asyncio.Runner() as runner:
        yield lambda data: runner.run(read(data))


@contextmanager
def agent_http() -> Iterator[Target]:
    """Bytes of a connection to the agent's server of probes and metrics; one of its paths takes a body."""

    async def answer(request: HttpRequest) -> Response:
        assert len(request.body) <= 64
        return page(200, "ok")

    posted = Route(answer, methods=("POST",), most_body=64)
    config = configured(RouteApplication({"/healthz": Route(answer), "/posted": posted}), ServerLimits())

    async def fed(data: bytes) -> None:
        state = ServerState()
        protocol = Connection(config, state, ServerLimits(), {})
        wire = Wire()
        protocol.connection_made(cast("Any", wire))
        if data:  # a transport gives no empty piece
            protocol.data_received(data)
        for _ in range(8):
            await asyncio.sleep(0)
        protocol.connection_lost(None)
        tasks = tuple(state.tasks)
        for task in tasks:  # who waits for the rest of a body waits for nothing
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with asyncio.Runner() as runner:
        yield lambda data: runner.run(fed(data))


def shell(data: bytes) -> None:
    """A script's grammar, and arithmetic."""
    text = data.decode("utf-8", "replace")
    with suppress(ShellUnsupportedError):
        parse_script(text)
    with suppress(ShellUnsupportedError, ValueError):
        evaluate(text, lambda _name: "1")


class Given:
    """Input at once; output is dropped."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def read(self) -> bytes:
        data, self._data = self._data, b""
        return data

    def write(self, data: bytes) -> None: ...

    def write_error(self, data: bytes) -> None: ...


@contextmanager
def archive() -> Iterator[Target]:
    """What `kubectl cp` sends into a container."""
    with asyncio.Runner() as runner:

        def target(data: bytes) -> None:
            files = FileTree()
            context = SimpleNamespace(argv=("tar", "-xmf", "-", "-C", "/tmp"), stdio=Given(data), files=files)
            runner.run(tar(cast("Any", context)))

        yield target
