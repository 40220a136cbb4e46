"""A plain HTTPS GET whose body is read as it comes."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import h11

from tonnage.twin.apiserver.serving.connections.own_addresses import ElsewhereError, dial

_CONNECT_S: Final = 10.0
_MOST_ERROR: Final = 64 << 10


class UnreachableError(Exception):
    """Nobody answers; the text is what Go's packages say of it."""


class KubeletResponse:
    """The answer; `chunks` reads its body once."""

    def __init__(self, connection: h11.Connection, reader: asyncio.StreamReader, head: h11.Response) -> None:
        self._connection = connection
        self._reader = reader
        self.code = head.status_code
        kinds = [value.decode("latin-1") for name, value in head.headers if name == b"content-type"]
        self.content_type = next(iter(kinds), "")

    async def chunks(self) -> AsyncIterator[bytes]:
        """Parts of the body."""
        while True:
            event = await next_event(self._connection, self._reader)
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            else:
                return

    async def whole(self) -> bytes:
        """The body, up to a bound."""
        body = b""
        async for chunk in self.chunks():
            body += chunk
            if len(body) > _MOST_ERROR:
                break
        return body[:_MOST_ERROR]


@asynccontextmanager
async def open_response(
    host: str, port: int, path: str, context: ssl.SSLContext, accept: str = ""
) -> AsyncIterator[KubeletResponse]:
    """The answer to `GET https://host:port/path`; with `accept` that header is sent.

    Raises:
        UnreachableError: nobody answers.
    """
    reader, writer = await connect(host, port, context)
    try:
        connection = h11.Connection(h11.CLIENT)
        headers = [("host", f"{host}:{port}"), ("connection", "close")]
        headers += [("accept", accept)] if accept else []
        request = connection.send(h11.Request(method="GET", target=path, headers=headers))
        writer.write((request or b"") + (connection.send(h11.EndOfMessage()) or b""))
        try:
            event = await next_event(connection, reader)
        except OSError as error:
            raise UnreachableError(in_gos_words(error)) from None
        except h11.ProtocolError:
            raise UnreachableError("EOF") from None
        if not isinstance(event, h11.Response):
            raise UnreachableError("EOF")
        yield KubeletResponse(connection, reader, event)
    finally:
        writer.close()


async def connect(
    host: str, port: int, context: ssl.SSLContext
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A TLS connection. Raises UnreachableError."""
    try:
        async with asyncio.timeout(_CONNECT_S):
            return await dial(host, port, context, host)
    except ElsewhereError as error:
        raise UnreachableError(f"dial tcp {host}:{port}: {error}") from None
    except ssl.SSLError as error:
        raise UnreachableError(f"tls: {error}") from None
    except (socket.gaierror, UnicodeError):
        raise UnreachableError(f"dial tcp: lookup {host}: no such host") from None
    except OverflowError:
        raise UnreachableError(f"dial tcp: address {port}: invalid port") from None
    except OSError as error:
        words = in_gos_words(error)
        if error.errno:
            words = f"dial tcp {host}:{port}: connect: {words}"
        elif isinstance(error, TimeoutError):
            words = f"dial tcp {host}:{port}: {words}"
        raise UnreachableError(words) from None


def in_gos_words(error: OSError) -> str:
    """What Go calls it.

    >>> in_gos_words(ConnectionRefusedError(111, "Connect call failed")), in_gos_words(TimeoutError())
    ('connection refused', 'i/o timeout')
    """
    if error.errno:
        return os.strerror(error.errno).lower()
    return "i/o timeout" if isinstance(error, TimeoutError) else "EOF"


async def next_event(connection: h11.Connection, reader: asyncio.StreamReader) -> object:
    """The next event of the connection; informational responses are passed over."""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(64 << 10))
        elif not isinstance(event, h11.InformationalResponse):
            return event
