"""A page that a program of a pretended pod serves: at a loopback address of this machine."""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from starlette.responses import Response

_HOST: Final = "127.0.0.1"
_PATIENCE_S: Final = 10.0
_PIECE: Final = 64 << 10
_MOST_BYTES: Final = 64 << 20


async def page_at(port: int, path: str, accept: str) -> Response:
    """The answer to `GET path`. Raises OSError: nobody serves, or what is served is no answer of HTTP."""
    async with asyncio.timeout(_PATIENCE_S):
        reader, writer = await asyncio.open_connection(_HOST, port)
        try:
            connection = h11.Connection(h11.CLIENT)
            headers = [("host", f"{_HOST}:{port}"), ("accept", accept), ("connection", "close")]
            request = connection.send(h11.Request(method="GET", target=path, headers=headers))
            writer.write((request or b"") + (connection.send(h11.EndOfMessage()) or b""))
            return await _answer(connection, reader)
        except h11.ProtocolError as error:
            raise ConnectionError(str(error)) from None
        finally:
            writer.close()


async def _answer(connection: h11.Connection, reader: asyncio.StreamReader) -> Response:
    body = bytearray()
    response = Response(status_code=502)
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_PIECE))
        elif isinstance(event, h11.Response):
            kinds = [value.decode("latin-1") for name, value in event.headers if name == b"content-type"]
            response = Response(status_code=event.status_code, media_type=next(iter(kinds), None))
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > _MOST_BYTES:
                raise ConnectionError(f"the page has more than {_MOST_BYTES >> 20} MiB")
        elif not isinstance(event, h11.InformationalResponse):
            return Response(bytes(body), response.status_code, media_type=response.media_type)
