"""Clients that send half of a request, read nothing, or come in crowds: they are ended, others are served."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import socket
from contextlib import AsyncExitStack
from typing import Any

import pytest

from support.connections import connection
from tonnage.twin.apiserver.serving import exchange
from tonnage.twin.apiserver.serving.connections import peers
from tonnage.twin.apiserver.serving.encodings import bodies
from tonnage.wire.kinds import CONFIG_MAP

MAPS = "/api/v1/namespaces/default/configmaps"


def _head(running: Any, line: str, *more: str) -> bytes:
    lines = ("host: x", f"authorization: Bearer {running.http.token}", *more)
    return "\r\n".join((f"{line} HTTP/1.1", *lines, "", "")).encode()


async def _line(reader: asyncio.StreamReader) -> Any:
    """The next event of a watch, between the sizes of chunks."""
    while True:
        line = await reader.readline()
        assert line, "the watch has ended"
        if line.startswith(b"{"):
            return json.loads(line)


@pytest.mark.parametrize("before", [False, True], ids=["at first", "after an answer"])
async def test_who_does_not_finish_a_head_is_refused(
    running: Any, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    monkeypatch.setattr(peers, "_HEAD_S", 0.5)
    async with (
        running.http.open() as (watching, watcher),
        running.http.open() as (reader, writer),
        asyncio.timeout(30),
    ):
        watcher.write(_head(running, f"GET {MAPS}?watch=1"))
        if before:
            writer.write(_head(running, "GET /healthz"))
            assert await reader.readuntil(b"ok")
        writer.write(b"GET /api HTTP/1.1\r\nhost: x\r\nautho")
        said = await reader.read()
        assert said.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert said.endswith(b"\r\n\r\n400 Bad Request") or b"\r\n400 Bad Request\r\n" in said
        # What has a whole head is not.
        await running.api.create(CONFIG_MAP, {"metadata": {"name": "a"}}, namespace="default")
        while (await _line(watching))["object"]["metadata"]["name"] != "a":
            pass


async def test_who_says_nothing_at_all_is_ended(running: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_HEAD_S", 0.05)
    async with running.http.open() as (reader, _), asyncio.timeout(30):
        assert await reader.read() == b""


async def test_a_watcher_that_reads_nothing_holds_little_and_up_nobody(
    running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_SEND_S", 0.5)
    idle = socket.create_connection(("127.0.0.1", running.http.port))
    idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opening = asyncio.open_connection(
        sock=idle, ssl=running.http.context, server_hostname="127.0.0.1", limit=1024
    )
    data = {"key": "x" * 900_000}
    async with connection(opening) as (reader, writer), asyncio.timeout(60), AsyncExitStack() as later:
        writer.write(_head(running, f"GET {MAPS}?watch=1"))
        await reader.readline()
        assert isinstance(writer.transport, asyncio.Transport)
        writer.transport.pause_reading()
        state = running.server._listener._server.server_state  # what is open tells only the HTTP library
        [peer], [task] = state.connections, state.tasks
        watching, watcher = await later.enter_async_context(running.http.open())
        watcher.write(_head(running, f"GET {MAPS}?watch=1"))
        for number in range(12):
            body = {"metadata": {"name": f"m{number}"}, "data": data}
            await running.api.create(CONFIG_MAP, body, namespace="default")
            assert peer.transport.get_write_buffer_size() < 3 * 900_000
        seen = set[str]()
        while len(seen) < 12:
            seen.add(await _name(watching))
        await task
        assert peer.transport.is_closing()


async def _name(reader: asyncio.StreamReader) -> str:
    """The name of the next ConfigMap of a watch."""
    tail = b""
    while True:
        found = re.search(rb'"name":"(m\d+)"', tail)
        if found:
            return found[1].decode()
        piece = await reader.read(1 << 16)
        assert piece, "the watch has ended"
        tail = tail[-100:] + piece


async def test_half_a_body_is_refused_and_its_rest_not_waited_for(
    running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "_READ_S", 0.05)
    head = _head(running, f"POST {MAPS}", "content-type: application/json", "content-length: 90")
    async with running.http.open() as (reader, writer), asyncio.timeout(30):
        writer.write(head + b"{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
        assert await reader.readuntil(b"}\n")
        monkeypatch.setattr(peers, "_HEAD_S", 0.05)
        writer.write(b'"')
        assert await reader.read() == b""


@pytest.mark.long
async def test_a_thousand_connections_hold_up_nobody_and_leave_nothing(
    running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "_HEAD_S", 3600.0)  # however long it takes to open them all
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    state = running.server._listener._server.server_state
    head = _head(running, f"GET {MAPS}?watch=1")
    kinds = (b"", b"GET /api HTTP/1.1\r\nhost: x\r\nautho", head, head)
    watching: list[asyncio.StreamReader] = []
    async with AsyncExitStack() as connections:
        for number in range(1000):
            reader, writer = await connections.enter_async_context(running.http.open())
            writer.write(kinds[number % len(kinds)])
            if kinds[number % len(kinds)] is head:
                await reader.readuntil(b"\r\n\r\n")
                watching.append(reader)
        assert len(state.connections) == 1000
        assert (await running.http("POST", MAPS, {"metadata": {"name": "m1"}})).code == 201
        async with asyncio.timeout(60):
            assert {await _name(reader) for reader in watching} == {"m1"}
    assert (await running.http("GET", "/healthz")).out == "ok"
    async with asyncio.timeout(60):
        await asyncio.gather(*state.tasks)
    assert not state.tasks


async def test_after_its_end_a_connection_is_neither_written_to_nor_ended_again() -> None:
    told: list[object] = []

    class Transport(asyncio.Transport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            told.append(bytes(data))

        def close(self) -> None:
            told.append("closed")

    gathering = peers.BufferedTransport(Transport())
    gathering.write(b"a")
    gathering.close()
    gathering.write(b"b")
    gathering.close()
    await asyncio.sleep(0)
    assert told == [b"a", "closed"]
