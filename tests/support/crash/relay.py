"""The API server's door for one agent, in plain HTTP; every write can be its last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tonnage.twin.apiserver.server import LOOPBACK, Endpoint

_CHUNK: Final = 1 << 16
_READS: Final = ("GET", "HEAD", "OPTIONS")


class Relay:
    """Passes on requests; `on_write` is called before a write is passed on, and before it is answered.

    It is told `VERB RESOURCE` and whether it is afterwards. While closed, nobody is listening.
    """

    def __init__(self, endpoint: Endpoint, on_write: Callable[[str, bool], None]) -> None:
        self._port_there = int(endpoint.url.rpartition(":")[2])
        self._on_write = on_write
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def open(self) -> None:
        """Listen, at the same port as before."""
        if self._server is None:
            self._server = await asyncio.start_server(self._carry, LOOPBACK, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Break every connection and take no new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting: list[str] = []
        there = None
        self._writers.add(writer)
        try:
            back, there = await asyncio.open_connection(LOOPBACK, self._port_there)
            self._writers.add(there)
            pumps = {
                asyncio.ensure_future(self._requests(reader, there, waiting)),
                asyncio.ensure_future(self._answers(back, writer, waiting)),
            }
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass
        finally:
            for each in (writer, there):
                if each is not None:
                    self._writers.discard(each)
                    each.transport.abort()

    async def _requests(
        self, reader: asyncio.StreamReader, there: asyncio.StreamWriter, waiting: list[str]
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                name, length = _request(head)
                body = await reader.readexactly(length)
                if name:
                    self._on_write(name, False)
                    waiting.append(name)
                there.write(head + body)
                await there.drain()

    async def _answers(
        self, back: asyncio.StreamReader, writer: asyncio.StreamWriter, waiting: list[str]
    ) -> None:
        with suppress(OSError):
            while chunk := await back.read(_CHUNK):
                while waiting:
                    self._on_write(waiting.pop(0), True)
                writer.write(chunk)
                await writer.drain()


def _request(head: bytes) -> tuple[str, int]:
    """(what it writes, empty for a question; the length of its body)."""
    first, *lines = head.decode("latin-1").split("\r\n")
    verb, target, _ = first.split(" ", 2)
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    length = int(headers.get("content-length", "0"))
    return ("" if verb in _READS else f"{verb} {_resource(target.partition('?')[0])}"), length


def _resource(path: str) -> str:
    """The plural, and the subresource if there is one.

    >>> _resource("/api/v1/namespaces/ml/pods/train/eviction")
    'pods/eviction'
    """
    parts = path.strip("/").split("/")[2 if path.startswith("/api/") else 3 :]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return "/".join([parts[0], *parts[2:]])
