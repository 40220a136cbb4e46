"""The connections that tests open themselves: at the end of each its socket is closed."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.connections import connection
from tonnage.adapters.certificates import Authority

tls = pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])


@asynccontextmanager
async def listening(folder: Path, *, tls: bool) -> AsyncIterator[tuple[int, ssl.SSLContext | None]]:
    """Port of a server that never reads, nor closes what a client has not, and how to trust it."""
    ours = theirs = None
    if tls:
        authority = Authority.generate(datetime.now(UTC))
        pair = authority.issue("server", hosts=["127.0.0.1"], server=True)
        (folder / "pair.pem").write_bytes(pair.certificate_pem + pair.key_pem)
        ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        ours.load_cert_chain(folder / "pair.pem")
        theirs = ssl.create_default_context(cadata=authority.certificate_pem.decode())

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(writer.transport, asyncio.Transport)
        writer.transport.pause_reading()
        served.append(writer)

    served: list[asyncio.StreamWriter] = []
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=ours) as server:
        yield server.sockets[0].getsockname()[1], theirs
        for writer in served:
            writer.transport.abort()


@tls
@pytest.mark.parametrize("ending", ["returns", "fails", "is cancelled"])
async def test_the_socket_is_closed_however_the_client_ends(tmp_path: Path, tls: bool, ending: str) -> None:
    opened: list[socket.socket] = []

    async def client(port: int, context: ssl.SSLContext | None) -> None:
        async with connection(asyncio.open_connection("127.0.0.1", port, ssl=context)) as (_, writer):
            opened.append(writer.get_extra_info("socket"))
            if ending == "fails":
                raise KeyError
            if ending == "is cancelled":
                task.cancel()
                await asyncio.Event().wait()

    async with listening(tmp_path, tls=tls) as (port, context):
        task = asyncio.create_task(client(port, context))
        [end] = await asyncio.gather(task, return_exceptions=True)
        assert [each.fileno() for each in opened] == [-1]
    expected = {"returns": type(None), "fails": KeyError, "is cancelled": asyncio.CancelledError}
    assert type(end) is expected[ending]
