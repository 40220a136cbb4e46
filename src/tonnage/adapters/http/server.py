"""A small HTTP server for probes and metrics on the agent's own event loop, bounded in every direction.

A loop that hangs does not answer, which is what a liveness probe is for. Imported late: its libraries are
no part of the agent's start.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
from prometheus_client.registry import Collector
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_LOG: Final = logging.getLogger(__name__)
_MOST_HEADER: Final = 16 << 10
_IDLE_S: Final = 75
_TEXT_FORMAT: Final = b"text/plain; version=0.0.4; charset=utf-8"
_OPENMETRICS: Final = b"application/openmetrics-text; version=1.0.0; charset=utf-8"
_ALLOW: Final = (b"allow", b"GET, HEAD")


@dataclass(frozen=True, slots=True)
class Answer:
    """A page of plain text, a line each."""

    status: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """How many connections may be open, and in how many seconds a request must have its answer."""

    connections: int = 64
    request_s: float = 10.0


class ProbeServer:
    """Serves `/metrics` out of the collector, and the probes by path, on a socket that listens already."""

    def __init__(
        self,
        listening: socket.socket,
        collector: Collector,
        probes: Mapping[str, Callable[[], Answer]],
        limits: Limits = Limits(),
    ) -> None:
        registry = CollectorRegistry()  # its own: many agents may share the process
        registry.register(collector)
        ProcessCollector(registry=registry)
        self._listening = listening
        self._limits = limits
        self._config = Config(
            _Application(registry, probes),
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",  # what clients do wrong is answered, not logged
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_IDLE_S,
            h11_max_incomplete_event_size=_MOST_HEADER,
        )
        self._state = ServerState()

    async def run(self) -> None:
        """Serve until cancelled."""
        self._config.load()
        connections = dict[_Protocol, None]()  # the oldest first
        server = await asyncio.get_running_loop().create_server(
            lambda: _Protocol(self._config, self._state, self._limits, connections), sock=self._listening
        )
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            for connection in list(connections):
                connection.transport.abort()


class _Protocol(H11Protocol):
    """uvicorn's HTTP protocol with an end to every request, and to the oldest connection of too many.

    A new one is never refused: whoever opens many and says nothing must not keep kubelet's probe out.
    """

    def __init__(
        self, config: Config, state: ServerState, limits: Limits, open_now: dict[_Protocol, None]
    ) -> None:
        super().__init__(config, state, {})
        self._limits = limits
        self._open_now = open_now
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self._open_now) >= self._limits.connections:
            oldest = next(iter(self._open_now))
            del self._open_now[oldest]
            oldest.transport.abort()
        self._open_now[self] = None
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_now.pop(self, None)
        self._relax()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deadline is None:
            self._expect()
        super().data_received(data)

    def on_response_complete(self) -> None:
        self._relax()
        super().on_response_complete()

    def _expect(self) -> None:
        """From now on the next answer must be out in time."""
        self._deadline = self.loop.call_later(self._limits.request_s, self.transport.abort)

    def _relax(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Application:
    """Which path is answered by whom."""

    def __init__(self, registry: CollectorRegistry, probes: Mapping[str, Callable[[], Answer]]) -> None:
        self._registry = registry
        self._probes = probes

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"  # neither WebSockets nor a lifespan are configured
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            await _send_lines(send, Answer(405, ("only GET and HEAD are answered",)), _ALLOW)
        elif path == "/metrics":
            await self._metrics(dict(scope["headers"]), send)
        elif path in self._probes:
            await _send_lines(send, self._probes[path]())
        else:
            await _send_lines(send, Answer(404, ("here are:", "/metrics", *self._probes)))

    async def _metrics(self, asked: Mapping[bytes, bytes], send: Send) -> None:
        """The library's own application would answer a careless header with an error of ours."""
        strict = _OPENMETRICS.partition(b";")[0] in asked.get(b"accept", b"")
        try:
            body = (openmetrics if strict else generate_latest)(self._registry)
        except Exception:
            _LOG.exception("metrics not made")
            await _send_lines(send, Answer(500, ("the metrics could not be made; the agent's log says why",)))
            return
        headers = [(b"content-type", _OPENMETRICS if strict else _TEXT_FORMAT)]
        if b"gzip" in asked.get(b"accept-encoding", b""):
            body = gzip.compress(body)
            headers.append((b"content-encoding", b"gzip"))
        await _send(send, 200, body, *headers)


async def _send_lines(send: Send, answer: Answer, *headers: tuple[bytes, bytes]) -> None:
    body = "".join(f"{line}\n" for line in answer.lines).encode()
    await _send(send, answer.status, body, (b"content-type", b"text/plain; charset=utf-8"), *headers)


async def _send(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})
