"""The agent's own socket on its node: who connects is sent one document, and says nothing."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tonnage.adapters.checkpoints import file_problem
from tonnage.model.errors import HardwareError, Problem

_LOG: Final = logging.getLogger(__name__)
SOCKET: Final = "agent.sock"
MAX_BYTES: Final = 16 << 20
_PATIENCE_S: Final = 10.0
_MOST: Final = 4
"""Who may be answered at a time."""
_CREDENTIALS: Final = struct.Struct("3i")
_REMEDY: Final = "start the agent, or give the --root that the agent runs with"


class AgentSocket:
    """Serves what `document` makes at a socket that only the agent's own user and root may connect to."""

    def __init__(self, file: Path, document: Callable[[], Awaitable[bytes]]) -> None:
        self._file = file
        self._document = document
        self._answering = 0

    async def run(self) -> None:
        """Serve until cancelled; then the socket's file is gone. A folder that takes no socket is logged."""
        try:
            listening = _bound(self._file)
        except OSError as error:
            _LOG.warning("agent cannot be queried: file=%s error=%s", self._file, error.strerror or error)
            return
        try:
            server = await asyncio.start_unix_server(self._answer, sock=listening)
            async with server:
                await server.serve_forever()
        finally:
            listening.close()
            with suppress(OSError):
                self._file.unlink()

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._answering < _MOST and _is_own(writer.get_extra_info("socket")):
                self._answering += 1
                try:
                    await self._send(writer)
                finally:
                    self._answering -= 1
        finally:
            writer.transport.abort()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError):  # who asked is gone, or does not read
            async with asyncio.timeout(_PATIENCE_S):
                document = await self._document()
                if len(document) > MAX_BYTES:
                    _LOG.warning("answer too large: file=%s bytes=%d", self._file, len(document))
                    return
                writer.transport.set_write_buffer_limits(high=0)  # so that `drain` waits for all of it
                writer.write(document)
                await writer.drain()


def ask_agent(file: Path, *, patience_s: float = _PATIENCE_S) -> bytes:
    """What the agent that serves `file` answers.

    Raises:
        HardwareError: there is none, it does not answer in time, or the socket is another user's.
    """
    where = str(file)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(patience_s)
        try:
            with _short(file) as name:
                client.connect(name)
            if not _is_own(client):
                remedy = "find the program that listens there: ss -xlp"
                raise HardwareError(Problem("the agent's socket is another user's", where, remedy=remedy))
            return _received(client, where)
        except TimeoutError:
            why = f"it has not answered for {patience_s:g} s"
            remedy = "read its log and its /healthz probe; a second SIGTERM ends it at once"
            raise HardwareError(Problem("the agent does not answer", where, why, remedy)) from None
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            raise HardwareError(Problem("no agent answers on this node", where, remedy=_REMEDY)) from None
        except OSError as error:
            raise HardwareError(file_problem("cannot be queried", file, error)) from None


def _received(client: socket.socket, where: str) -> bytes:
    parts, size = [], 0
    while part := client.recv(1 << 16):
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            why = f"it is longer than {MAX_BYTES >> 20} MiB"
            raise HardwareError(Problem("the agent's answer is too large", where, why))
    return b"".join(parts)


def _bound(file: Path) -> socket.socket:
    """A listening socket under that name, which nobody else can connect to at any moment. Raises OSError."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        bound = file.with_name(f".{file.name}")
        bound.unlink(missing_ok=True)  # of one that was killed
        with _short(bound) as name:
            listening.bind(name)
        bound.chmod(0o600)
        listening.listen(_MOST)  # not before the mode is right: until now nobody could connect
        bound.replace(file)
    except OSError:
        listening.close()
        raise
    return listening


@contextmanager
def _short(file: Path) -> Iterator[str]:
    """A name of the file that is short enough for a socket, whatever its folder is called."""
    folder = os.open(file.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{file.name}"
    finally:
        os.close(folder)


def _is_own(connection: socket.socket) -> bool:
    """Whether at the other end is root, or who this process is."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(credentials)[1] in (0, os.geteuid())
