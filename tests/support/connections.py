"""Raw connections of the tests' clients, which leave no open socket behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connection(opening: Awaitable[Streams]) -> AsyncIterator[Streams]:
    """The streams of a connection, whose socket is closed at the end, whatever happens within.

    It is cut off: a peer that does not read could hold up an end in good order. `writer.close()` alone
    closes the socket later, perhaps in another test, which then fails for a socket that was left open.
    """
    reader, writer = await opening
    try:
        yield reader, writer
    finally:
        with suppress(AttributeError):  # Python 3.11.2 forgets a TLS connection closed twice
            writer.transport.abort()
        with suppress(OSError):  # the connection had ended with an error before
            await writer.wait_closed()
