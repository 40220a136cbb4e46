"""A WebSocket client over TLS, for the streams of exec and attach."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    RejectData,
    TextMessage,
)
from wsproto.events import Request as Handshake
from wsproto.utilities import ProtocolError

from tonnage.twin.apiserver.serving.kubelets.kubelet_http import UnreachableError, connect, in_gos_words

_HANDSHAKE_S: Final = 15.0
_MOST_MESSAGE: Final = 16 << 20
_MOST_ERROR: Final = 64 << 10


class UpgradeError(Exception):
    """The kubelet refuses a WebSocket; the text is its own."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class KubeletSocket:
    """An open WebSocket. Whole messages go in and come out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.subprotocol: str | None = None
        self.close_code = 1000
        self._reader = reader
        self._writer = writer
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._events: list[Event] = []

    async def shake_hands(self, host: str, path: str, offered: Sequence[str]) -> None:
        """Ask for the WebSocket. Raises UpgradeError when the kubelet refuses."""
        handshake = Handshake(host=host, target=path, subprotocols=list(offered))
        await self._write(self._protocol.send(handshake))
        event = await self._next()
        if isinstance(event, AcceptConnection):
            self.subprotocol = event.subprotocol
            return
        if not isinstance(event, RejectConnection):
            raise UnreachableError("EOF")
        body, more = b"", event.has_body
        while more and len(body) < _MOST_ERROR:
            part = await self._next()
            more = isinstance(part, RejectData) and not part.body_finished
            body += bytes(part.data) if isinstance(part, RejectData) else b""
        raise UpgradeError(event.status_code, body.decode(errors="replace").strip())

    async def messages(self) -> AsyncIterator[bytes | str]:
        """Whole messages until the other side closes."""
        parts: list[bytes | str] = []
        size = 0
        while True:
            event = await self._next()
            match event:
                case BytesMessage() | TextMessage():
                    parts.append(event.data if isinstance(event.data, str) else bytes(event.data))
                    size += len(parts[-1])
                    if size > _MOST_MESSAGE:
                        self.close_code = 1009
                        return
                    if event.message_finished:
                        yield _joined(parts)
                        parts, size = [], 0
                case Ping():
                    await self._write(self._protocol.send(event.response()))
                case CloseConnection():
                    self.close_code = event.code if event.code in range(1000, 5000) else 1000
                    await self.close(self.close_code)
                    return
                case None:
                    return
                case _:
                    pass

    async def send(self, content: bytes | str) -> None:
        """Send a message. Raises ConnectionError when the other side has gone."""
        message: Event = BytesMessage(content) if isinstance(content, bytes) else TextMessage(content)
        await self._write(self._protocol.send(message))

    async def close(self, code: int) -> None:
        """Say goodbye, if there is still somebody to say it to."""
        try:
            await self._write(self._protocol.send(CloseConnection(code=code)))
        except (ProtocolError, ConnectionError):
            return

    async def _write(self, content: bytes) -> None:
        self._writer.write(content)
        await self._writer.drain()

    async def _next(self) -> Event | None:
        """The next event; None once the connection has ended."""
        while not self._events:
            received = await self._reader.read(64 << 10)
            try:
                self._protocol.receive_data(received or None)
            except ProtocolError:
                return None
            self._events = list(self._protocol.events())
            if not received:
                return self._events.pop(0) if self._events else None
        return self._events.pop(0)


@asynccontextmanager
async def open_socket(
    host: str, port: int, path: str, context: ssl.SSLContext, offered: Sequence[str]
) -> AsyncIterator[KubeletSocket]:
    """A WebSocket to `wss://host:port/path`.

    Raises:
        UnreachableError: nobody answers.
        UpgradeError: the kubelet refuses.
    """
    reader, writer = await connect(host, port, context)
    try:
        kubelet = KubeletSocket(reader, writer)
        try:
            async with asyncio.timeout(_HANDSHAKE_S):
                await kubelet.shake_hands(f"{host}:{port}", path, offered)
        except OSError as error:
            raise UnreachableError(in_gos_words(error)) from None
        yield kubelet
    finally:
        writer.close()


def _joined(parts: list[bytes | str]) -> bytes | str:
    if isinstance(parts[0], bytes):
        return b"".join(part for part in parts if isinstance(part, bytes))
    return "".join(part for part in parts if isinstance(part, str))
