"""A small HTTP server for a table of routes on the program's own event loop, bounded in every direction.

A loop that hangs does not answer, which is what a liveness probe is for. Imported late: its library is no
part of the agent's start.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

if TYPE_CHECKING:
    import ssl

    from starlette.types import Receive, Scope, Send

_LOG: Final = logging.getLogger(__name__)
_READING: Final = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request; names of headers in small letters, of several alike the last, `query` as it was sent."""

    method: str
    path: str
    query: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; its length is added."""

    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[HttpRequest], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """What answers a path. A body of more than `most_body` bytes is refused; without any none is read."""

    handler: Handler
    methods: tuple[str, ...] = _READING
    most_body: int = 0


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What a client may take: connections, the size of a header, seconds.

    `request_s` is from a request's first byte, or the connection, to the answer's last; `idle_s` is between
    two requests.
    """

    connections: int = 64
    header_bytes: int = 16 << 10
    request_s: float = 10.0
    idle_s: int = 75


def lines(status: int, *texts: str, headers: Mapping[str, str] | None = None) -> Response:
    """A page of plain text."""
    body = "".join(f"{text}\n" for text in texts).encode()
    return Response(status, body, "text/plain; charset=utf-8", headers or {})


class PageAccess(Protocol):
    """Who may ask, by which TLS, and what goes with every answer."""

    context: ssl.SSLContext | None
    headers: Mapping[str, str]

    async def refusal(self, request: HttpRequest) -> Response | None:
        """The answer to who may not ask; None for who may."""
        ...


class OpenAccess:
    """Plain HTTP for everybody."""

    context: ssl.SSLContext | None = None
    headers: Mapping[str, str] = MappingProxyType({})

    async def refusal(self, request: HttpRequest) -> Response | None:
        del request
        return None


Accesses = Callable[[], AsyncIterator[PageAccess]]


async def open_to_all() -> AsyncIterator[PageAccess]:
    """The access of everybody, for ever."""
    yield OpenAccess()
    await asyncio.get_running_loop().create_future()


class HttpServer:
    """Serves the routes by path on a socket that listens already.

    `accesses` gives who may ask, and another one when that changes; older connections end with their answer.
    """

    def __init__(
        self,
        listening: socket.socket,
        routes: Mapping[str, Route],
        limits: ServerLimits = ServerLimits(),
        *,
        accesses: Accesses = open_to_all,
    ) -> None:
        self._listening = listening
        self._routes = routes
        self._limits = limits
        self._accesses = accesses
        self._state = ServerState()

    async def run(self) -> None:
        """Serve until cancelled."""
        connections = dict[Connection, None]()  # the oldest first
        server: asyncio.Server | None = None
        try:
            async for access in self._accesses():
                if server is not None:
                    server.close()
                    for connection in list(connections):
                        connection.shutdown()
                server = await self._serving(access, connections)
        finally:
            if server is not None:
                server.close()
            self._listening.close()
            for connection in list(connections):
                _cut_off(connection.transport)

    async def _serving(self, access: PageAccess, connections: dict[Connection, None]) -> asyncio.Server:
        """A server on the same socket: who connects while there is none waits in its queue."""
        application = RouteApplication(self._routes, access, self._limits.header_bytes)
        config = configured(application, self._limits)
        patience = None if access.context is None else self._limits.request_s
        return await asyncio.get_running_loop().create_server(
            lambda: Connection(config, self._state, self._limits, connections),
            sock=self._listening.dup(),
            ssl=access.context,
            ssl_handshake_timeout=patience,
        )


def configured(application: RouteApplication, limits: ServerLimits) -> Config:
    """uvicorn's settings, loaded."""
    config = Config(
        application,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # what clients do wrong is answered, not logged
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=limits.idle_s,
        h11_max_incomplete_event_size=limits.header_bytes,
    )
    config.load()
    return config


class Connection(H11Protocol):
    """uvicorn's HTTP protocol with an end to every request, and to the oldest connection of too many.

    A new one is never refused: whoever opens many and says nothing must not keep kubelet's probe out.
    """

    def __init__(
        self, config: Config, state: ServerState, limits: ServerLimits, open_now: dict[Connection, None]
    ) -> None:
        super().__init__(config, state, {})
        self._limits = limits
        self._open_now = open_now
        self._deadline: asyncio.TimerHandle | None = None
        self._answered = False
        """The deadline is for the rest of an answer to leave."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self._open_now) >= self._limits.connections:
            oldest = next(iter(self._open_now))
            del self._open_now[oldest]
            _cut_off(oldest.transport)
        self._open_now[self] = None
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_now.pop(self, None)
        self._relax()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deadline is None or self._answered:
            self._expect()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """A client that does not read has the answer in our memory: it has no more time than others."""
        self._relax()
        super().on_response_complete()  # begins the next request if it came already
        if self._unfinished:
            self._expect(answered=True)

    @property
    def _unfinished(self) -> bool:
        """Of a connection that was asked something: an answer is not made, or has not left."""
        waits = not self.cycle.response_complete
        return waits or self.transport.get_write_buffer_size() > 0

    def _expect(self, *, answered: bool = False) -> None:
        """From now on the next answer, or the rest of this one, must be out in time."""
        self._relax()
        self._answered = answered
        self._deadline = self.loop.call_later(self._limits.request_s, self._overdue)

    def _overdue(self) -> None:
        self._deadline = None
        if not self._answered or self._unfinished:
            _cut_off(self.transport)

    def _relax(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _cut_off(transport: asyncio.WriteTransport) -> None:
    """Close a connection without waiting for what was not sent."""
    with suppress(AttributeError):  # Python 3.11.2 forgets a TLS connection closed twice
        transport.abort()


class RouteApplication:
    """Which path is answered by whom."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        access: PageAccess | None = None,
        most_header: int = ServerLimits().header_bytes,
    ) -> None:
        self._routes = routes
        self._most_header = most_header
        self._access = access or OpenAccess()
        self._methods = tuple(dict.fromkeys(method for route in routes.values() for method in route.methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"  # neither WebSockets nor a lifespan are configured
        response = await self._response(scope, receive)
        headers = {"content-length": str(len(response.body)), "content-type": response.content_type}
        headers |= {**self._access.headers, **response.headers}
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": response.status, "headers": encoded})
        await send({"type": "http.response.body", "body": response.body})

    async def _response(self, scope: Scope, receive: Receive) -> Response:
        path, method = scope["path"], scope["method"]
        if _header_bytes(scope) > self._most_header:  # h11 lets a header pass that comes in one piece
            return lines(431, f"the header of a request has at most {self._most_header} bytes")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        request = HttpRequest(method, path, scope["query_string"], headers)
        if (refusal := await self._access.refusal(request)) is not None:
            return refusal
        route = self._routes.get(path)
        methods = self._methods if route is None else route.methods
        if method not in methods:
            allowed = {"allow": ", ".join(methods)}
            return lines(405, f"only {' and '.join(methods)} are answered", headers=allowed)
        if route is None:
            return lines(404, "here are:", *self._routes)
        body = await _body(receive, route.most_body) if route.most_body else b""
        if body is None:
            return lines(413, f"a body has at most {route.most_body} bytes")
        try:
            return await route.handler(replace(request, body=body))
        except Exception:
            _LOG.exception("page failed: path=%s", path)
            return lines(500, "the page failed; see the agent's log")


def _header_bytes(scope: Scope) -> int:
    """The size of a request's header as it was sent."""
    first = len(scope["method"]) + len(scope["raw_path"]) + len(scope["query_string"])
    return first + sum(len(name) + len(value) + len(b": \r\n") for name, value in scope["headers"])


async def _body(receive: Receive, most: int) -> bytes | None:
    """The whole body; None if it is larger, or if the client goes meanwhile, who then hears nothing."""
    body = bytearray()
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > most or message["type"] != "http.request":
            return None
        more = message.get("more_body", False)
    return bytes(body)
