"""The server of probes and metrics against clients that behave and clients that do not."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from support.connections import Streams, connection
from tonnage.adapters.http.address import Address, listen
from tonnage.adapters.http.metrics_page import MetricsPage
from tonnage.adapters.http.server import HttpRequest, HttpServer, Response, Route, ServerLimits, lines
from tonnage.model.metric_families import Metric, MetricKind

PATIENCE_S = 60.0
NEVER_S = 600.0
UNHURRIED = ServerLimits(request_s=NEVER_S)


class Pages:
    """One metric, a probe, a page that fails, and one that echoes what it is sent."""

    def __init__(self) -> None:
        self.broken = False
        """Whether the metric cannot be made."""
        self.begun, self.may_end = threading.Semaphore(0), threading.Event()
        self.wrong: list[str] = []
        self.large = b"x" * (32 << 20)
        """More than the kernel takes for a client that does not read."""

    def routes(self) -> dict[str, Route]:
        return {
            "/metrics": Route(MetricsPage(self.families)),
            "/fleet": Route(MetricsPage(self.slow_families, of_fleet=True)),
            "/readyz": Route(self.ready),
            "/fails": Route(self.fails),
            "/large": Route(self.all_of_it),
            "/echo": Route(self.echo, methods=("POST",), most_body=1000),
        }

    def families(self) -> Iterator[Metric]:
        if self.broken:
            raise ValueError
        yield Metric(MetricKind.GAUGE, "answer", 'Say "yes".', samples=(((), 3),))

    def slow_families(self) -> Iterator[Metric]:
        """Gone through at their own pace: nobody may wait for them but who asked."""
        yield from self.families()
        self.begun.release()
        self.may_end.wait(PATIENCE_S)
        yield Metric(MetricKind.COUNTER, "asked", "Times.", samples=(((), 1),))

    async def ready(self, _: HttpRequest) -> Response:
        return lines(503, *self.wrong) if self.wrong else lines(200, "ok")

    async def fails(self, _: HttpRequest) -> Response:
        raise ZeroDivisionError

    async def all_of_it(self, _: HttpRequest) -> Response:
        return Response(200, self.large, "application/octet-stream")

    async def echo(self, request: HttpRequest) -> Response:
        shown = f"{request.method} {request.path} {request.query.decode()} {request.headers['x-name']}"
        return Response(200, shown.encode() + b"\n" + request.body, "text/plain", {"x-own": "1"})


class Noted(set[Any]):
    """uvicorn's connections, and whether one of them ended."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = asyncio.Event()

    def discard(self, element: object) -> None:
        super().discard(element)
        self.closed.set()


@dataclass
class Client:
    """Connections to the server, raw."""

    port: int
    pages: Pages
    server: HttpServer

    def open(self) -> AbstractAsyncContextManager[Streams]:
        return connection(asyncio.open_connection("127.0.0.1", self.port))

    async def ask(
        self, path: str, method: str = "GET", *headers: str, body: bytes = b""
    ) -> tuple[int, dict[str, str], bytes]:
        request = [f"{method} {path} HTTP/1.0", *headers, "", ""]
        async with self.open() as (reader, writer):
            writer.write("\r\n".join(request).encode("latin-1") + body)
            answer = await until_end(reader)
        head, _, body = answer.partition(b"\r\n\r\n")
        first, *rest = head.decode().split("\r\n")
        named = (line.partition(": ") for line in rest)
        return int(first.split()[1]), {name.lower(): value for name, _, value in named}, body


async def until_end(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the server closes, however it does."""
    got = b""
    async with asyncio.timeout(PATIENCE_S):
        try:
            while piece := await reader.read(1 << 16):
                got += piece
        except ConnectionResetError:
            pass
    return got


@asynccontextmanager
async def served(limits: ServerLimits = UNHURRIED) -> AsyncIterator[Client]:
    with listen(Address("127.0.0.1", 0)) as listening:
        pages = Pages()
        server = HttpServer(listening, pages.routes(), limits)
        client = Client(listening.getsockname()[1], pages, server)
        task = asyncio.create_task(server.run())
        try:
            yield client
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with served() as made:
        yield made


async def test_metrics_are_text_for_prometheus_and_openmetrics_for_who_asks(client: Client) -> None:
    status, headers, body = await client.ask("/metrics")
    assert (status, headers["content-type"].split(";")[0]) == (200, "text/plain")
    assert b"answer 3.0\n" in body
    assert b"process_resident_memory_bytes" in body
    _, headers, body = await client.ask(
        "/metrics", "GET", "Accept: application/openmetrics-text; version=1.0.0"
    )
    assert headers["content-type"].startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    _, headers, body = await client.ask("/metrics", "GET", "Accept-Encoding: gzip")
    assert b"answer 3.0\n" in gzip.decompress(body)


@pytest.mark.parametrize(
    "header",
    [
        "Accept: application/openmetrics-text; version=abc",
        "Accept: text/plain; version=1..0; escaping=",
        "Accept: \xff\xfe",
        "Accept: ;;,=,q=",
        "Accept-Encoding: \xff;q=x",
    ],
)
async def test_a_careless_header_is_no_reason_for_an_error(client: Client, header: str) -> None:
    status, _, body = await client.ask("/metrics?name[]=%ff", "GET", header)
    assert status == 200
    assert b"answer 3.0\n" in body


@pytest.mark.parametrize("openmetrics", [True, False])
async def test_a_fleet_s_metrics_keep_nobody_else_waiting(client: Client, openmetrics: bool) -> None:
    headers = ["Accept: application/openmetrics-text"] if openmetrics else []
    first, second = (asyncio.create_task(client.ask("/fleet", "GET", *headers)) for _ in range(2))
    assert await asyncio.to_thread(client.pages.begun.acquire, timeout=PATIENCE_S)
    assert (await client.ask("/readyz"))[0] == 200
    assert not client.pages.begun.acquire(blocking=False)  # one page at a time is made
    client.pages.may_end.set()
    for status, _, body in (await first, await second):
        assert status == 200
        assert b"answer 3.0\n" in body
        assert b"asked_total 1.0\n" in body
        assert b"process_resident_memory_bytes" in body
        assert body.count(b"# EOF\n") == openmetrics
        assert body.endswith(b"# EOF\n") is openmetrics


async def test_a_probe_says_what_is_wrong_in_lines(client: Client) -> None:
    assert (await client.ask("/readyz"))[::2] == (200, b"ok\n")
    client.pages.wrong += ["devices: not read yet", "nvidia.com/gpu: not registered yet"]
    status, headers, body = await client.ask("/readyz")
    assert (status, headers["content-type"]) == (503, "text/plain; charset=utf-8")
    assert body == b"devices: not read yet\nnvidia.com/gpu: not registered yet\n"


@pytest.mark.parametrize("path", ["/metrics", "/readyz"])
async def test_head_is_get_without_a_body(client: Client, path: str) -> None:
    status, headers, body = await client.ask(path, "HEAD")
    assert (status, body) == (200, b"")
    assert headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/metrics", "/readyz", "/elsewhere"])
async def test_other_methods_are_refused(client: Client, method: str, path: str) -> None:
    status, headers, _ = await client.ask(path, method, "Content-Length: 0")
    if (path, method) == ("/elsewhere", "POST"):  # which another path takes
        assert status == 404
    else:
        allowed = "GET, HEAD, POST" if path == "/elsewhere" else "GET, HEAD"
        assert (status, headers["allow"]) == (405, allowed)


async def test_another_path_is_told_which_there_are(client: Client) -> None:
    status, _, body = await client.ask("/")
    assert status == 404
    assert body.splitlines() == [b"here are:", *(path.encode() for path in client.pages.routes())]


async def test_metrics_that_cannot_be_made_are_an_error_and_come_back(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.pages.broken = True
    assert (await client.ask("/metrics"))[0] == 500
    assert "page failed: path=/metrics" in caplog.text
    client.pages.broken = False
    assert (await client.ask("/metrics"))[0] == 200


async def test_a_page_that_fails_is_an_error_and_the_others_are_served(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await client.ask("/fails"))[0] == 500
    assert "page failed: path=/fails" in caplog.text
    assert (await client.ask("/readyz"))[0] == 200


async def test_a_page_gets_what_was_sent_and_says_what_it_likes(client: Client) -> None:
    headers = ("Content-Length: 5", "X-Name: \xfc")
    status, answered, body = await client.ask("/echo?a=b&c", "POST", *headers, body=b"hello")
    assert (status, answered["x-own"]) == (200, "1")
    assert body.decode() == "POST /echo a=b&c \xfc\nhello"
    status, answered, _ = await client.ask("/echo")
    assert (status, answered["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        pytest.param(("Content-Length: 1001",), b"x" * 1001, id="of known length"),
        pytest.param(
            ("Transfer-Encoding: chunked",), b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n", id="in chunks"
        ),
        pytest.param(("Transfer-Encoding: chunked",), b"1\r\nx\r\n" * 1001, id="in chunks without end"),
    ],
)
async def test_a_body_that_is_too_large_is_refused(
    client: Client, headers: tuple[str, ...], body: bytes
) -> None:
    head = "\r\n".join(("POST /echo HTTP/1.1", "Host: a", "X-Name: a", *headers, "", ""))
    async with client.open() as (reader, writer):
        writer.write(head.encode() + body)
        async with asyncio.timeout(PATIENCE_S):
            assert b" 413 " in await reader.readuntil(b"\n")
    assert (await client.ask("/readyz"))[0] == 200


async def test_a_body_that_a_page_does_not_take_is_not_read(client: Client) -> None:
    status, _, body = await client.ask("/readyz", "GET", "Content-Length: 3", body=b"abc")
    assert (status, body) == (200, b"ok\n")


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * (64 << 10), id="an endless header"),
        pytest.param(b"GET /" + b"x" * (64 << 10), id="an endless path"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", id="TLS"),
    ],
)
async def test_what_is_no_small_request_is_cut_off(client: Client, sent: bytes) -> None:
    async with client.open() as (reader, writer):
        writer.write(sent)
        assert b" 400 " in (await until_end(reader)).partition(b"\r\n")[0]
    assert (await client.ask("/readyz"))[0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="says nothing"),
        pytest.param(b"GET /readyz HTTP/1.1\r\nHost", id="stops within its request"),
        pytest.param(
            b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx", id="stops within its body"
        ),
    ],
)
async def test_who_does_not_finish_a_request_is_cut_off(sent: bytes) -> None:
    async with served(ServerLimits(request_s=0.05)) as client, client.open() as (reader, writer):
        writer.write(sent)
        assert await until_end(reader) == b""


@pytest.mark.parametrize("asked", [pytest.param(1, id="once"), pytest.param(20, id="and asks on")])
async def test_who_does_not_read_the_answer_is_cut_off(asked: int) -> None:
    """Its answer would stay in memory, for each connection that may be open."""
    async with served(ServerLimits(request_s=0.05)) as client:
        connections = client.server._state.connections = Noted()
        with socket.create_connection(("127.0.0.1", client.port)) as deaf:
            deaf.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n" * asked)
            async with asyncio.timeout(PATIENCE_S):
                await connections.closed.wait()
        assert (await client.ask("/readyz"))[0] == 200


async def test_a_connection_that_was_answered_may_stay_and_ask_again() -> None:
    async with served() as client, client.open() as (reader, writer), asyncio.timeout(PATIENCE_S):
        for _ in range(3):
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            assert await reader.readexactly(3) == b"ok\n"


async def test_too_many_connections_cost_the_oldest_and_never_the_newest() -> None:
    async with served(ServerLimits(connections=3, request_s=NEVER_S)) as client, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(client.open()) for _ in range(3)]
        assert (await client.ask("/readyz"))[0] == 200
        assert await until_end(silent[0][0]) == b""
        for reader, writer in silent[1:]:
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert (await until_end(reader)).startswith(b"HTTP/1.1 200 ")


async def test_a_thousand_silent_connections_cost_nobody_who_asks_the_page() -> None:
    async with served(ServerLimits(request_s=NEVER_S)) as client, AsyncExitStack() as stack:
        for _ in range(1_000):
            silent = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", client.port), PATIENCE_S)
            stack.enter_context(silent)
        assert (await client.ask("/readyz"))[0] == 200
        assert len(client.server._state.connections) <= ServerLimits().connections


async def test_an_end_waits_for_nobody() -> None:
    async with AsyncExitStack() as stack:
        async with served() as client:
            reader, writer = await stack.enter_async_context(client.open())
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")
            await reader.readuntil(b"ok\n")
        assert await until_end(reader) == b""


@pytest.mark.parametrize(("size", "status"), [(15 << 10, 200), (17 << 10, 431), (60 << 10, 431)])
async def test_a_header_is_bounded_though_it_comes_in_one_piece(
    client: Client, size: int, status: int
) -> None:
    assert (await client.ask("/readyz", "GET", f"X-Long: {'a' * size}"))[0] == status
    assert (await client.ask(f"/readyz?{'a' * size}"))[0] == status
