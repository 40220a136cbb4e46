"""One HTTP request and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from email.utils import formatdate
from typing import Any, Final
from urllib.parse import unquote
from uuid import uuid4

from starlette.types import Receive, Scope, Send

from tonnage.decide.kubernetes.api.encoding.go_json import go_json
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at
from tonnage.twin.apiserver.audit import Trail
from tonnage.twin.apiserver.requests import RequestNotes
from tonnage.twin.apiserver.serving.encodings.answers import encoded, indented
from tonnage.twin.apiserver.serving.encodings.negotiation import (
    JSON,
    MEDIA,
    Form,
    aggregated_form,
    negotiated,
    nothing_else,
    wants_pretty,
)
from tonnage.twin.apiserver.serving.warnings import bounded
from tonnage.twin.apiserver.statuses import PlainError, status_of

_SEND_S: Final = 30.0
"""A client that takes nothing for so long is cut off."""
_PIECE: Final = 256 << 10
CERTIFICATE: Final = "client-certificate"
"""Where the state of a connection has the client's certificate, as `ssl` describes it."""
TEXT: Final = "text/plain; charset=utf-8"
NO_SNIFF: Final = (b"x-content-type-options", b"nosniff")
CHUNK: Final = "chunk"
"""Where it has what writes a chunk at once, or says that it cannot now: events of watches need no more."""


class Exchange:
    """What came in, and ways to answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.method: str = scope.get("method", "GET")
        self.path: str = scope["path"]
        self.headers: dict[str, str] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        connection: Mapping[str, Any] = scope.get("state", {})
        self.certificate: Mapping[str, object] | None = connection.get(CERTIFICATE)
        self._write_chunk: Callable[[bytes], bool] | None = connection.get(CHUNK)
        self.audit_id = self.headers.get("audit-id") or str(uuid4())
        self.pairs: list[tuple[str, str]] = []
        self.query: dict[str, str] = {}
        self.form = Form()
        """In which answers are given; refusals only where the client wants no other kind of object."""
        self.warnings: tuple[str, ...] = ()
        self.notes = RequestNotes()
        self.trail: Trail | None = None
        self.cached = "no-cache, private"
        """How long clients may keep the answer."""
        self.admitted = False
        """Whether the client may ask what it asks."""
        self.code = 0
        """With which the answer has begun."""
        self._send = send
        self._started = False
        self._chunked = False

    @property
    def segments(self) -> list[str]:
        """The decoded path's segments, of which a slash too many makes an empty one."""
        raw: bytes = self.scope.get("raw_path") or self.path.encode()
        path = unquote(raw.decode("latin-1").partition("?")[0])
        return path.removeprefix("/").removesuffix("/").split("/")

    @property
    def accept(self) -> str:
        """What the client takes, without spaces."""
        return self.headers.get("accept", "").replace(" ", "")

    @property
    def aggregates(self) -> bool:
        """Whether the client takes all groups and kinds at once."""
        return aggregated_form(self.accept) is not None

    @property
    def pretty(self) -> bool:
        """Whether a person reads the answer."""
        return wants_pretty(self.query, self.headers.get("user-agent", ""))

    async def answer(self, obj: JsonObject, code: int = 200) -> None:
        """Send an object."""
        if self.trail is not None and obj.get("kind") == "Status":
            self.trail.answered(obj)
        await self.answer_bytes(encoded(obj, self.form), code, self.form.media)

    async def answer_bytes(self, content: bytes, code: int = 200, content_type: str = JSON) -> None:
        """Send a whole body."""
        await self.start(code, content_type, length=len(content))
        await self.chunk(b"" if self.method == "HEAD" else content, last=True)

    async def answer_list(self, head: bytes, texts: list[bytes], end: bytes) -> None:
        """Send texts with commas between them, in pieces: a long list is not copied and holds up nobody."""
        length = len(head) + sum(map(len, texts)) + max(len(texts) - 1, 0) + len(end)
        await self.start(200, JSON, length=length)
        if self.method != "HEAD":
            for piece in pieces(_enumerated(head, texts), _PIECE):
                await self.chunk(piece)
        await self.chunk(b"" if self.method == "HEAD" else end, last=True)

    async def refuse(self, error: ApiError) -> None:
        """Send a Status; if the answer has already begun, end it there."""
        if self.scope["type"] == "websocket":
            await self._refuse_websocket(error)
            return
        if self._started:
            await self.chunk(b"", last=True)
            return
        status = status_of(error)
        form = negotiated(self.headers.get("accept", ""), MEDIA, nothing_else, pretty=self.pretty)
        content, content_type = (encoded(status, form), form.media) if form else (indented(status), JSON)
        plain = isinstance(error, PlainError)
        if isinstance(error, PlainError):
            content, content_type = error.text.encode(), TEXT
        elif self.trail is not None:
            self.trail.answered(status)
        # What is left of a body that was not read must not be taken for the next request.
        extra = [(b"connection", b"close")] if error.code in (401, 413) else []
        extra += [NO_SNIFF] if plain or (error.code in (403, 500) and not self.admitted) else []
        retry = at(status, "details", "retryAfterSeconds")
        extra += [(b"retry-after", str(retry).encode())] if retry else []
        try:
            await self.start(error.code, content_type, length=len(content), extra=extra)
            await self.chunk(content, last=True)
        except (ConnectionError, RuntimeError):
            return

    async def start(
        self,
        code: int,
        content_type: str,
        *,
        length: int | None = None,
        extra: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        """Begin the answer; without a length it is a stream."""
        headers = [
            *self._common(),
            *([(b"content-type", content_type.encode())] if content_type else []),
            *(extra or []),
        ]
        self._chunked = length is None and self.scope["http_version"] == "1.1" and self.method != "HEAD"
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        headers += [
            (b"warning", f'299 - "{_quoted(text)}"'.encode("latin-1", "replace"))
            for text in bounded((*self.warnings, *self.notes.warnings))
        ]
        self._started, self.code = True, code
        if self.trail is not None:
            self.trail.started(code)
        await self._send({"type": "http.response.start", "status": code, "headers": headers})

    def _common(self) -> list[tuple[bytes, bytes]]:
        """The headers of every answer."""
        return [
            (b"audit-id", self.audit_id.encode()),
            (b"cache-control", self.cached.encode()),
            (b"date", formatdate(usegmt=True).encode()),
        ]

    async def chunk(self, content: bytes, *, last: bool = False) -> None:
        """Send a part of the body. Raises ConnectionError when the client takes nothing."""
        direct = self._write_chunk if self._chunked and content and not last else None
        if direct is not None and direct(content):
            return
        try:
            async with asyncio.timeout(_SEND_S):
                await self._send({"type": "http.response.body", "body": content, "more_body": not last})
        except TimeoutError:
            raise ConnectionAbortedError("the client reads too slowly") from None

    async def gone(self) -> None:
        """Return once the client has gone."""
        while (await self.receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
            pass

    async def _refuse_websocket(self, error: ApiError) -> None:
        status = status_of(error)
        if self.trail is not None:
            self.trail.answered(status)
            self.trail.started(error.code)
        content = go_json(status) + b"\n"
        headers = [
            *self._common(),
            (b"content-type", JSON.encode()),
            (b"content-length", str(len(content)).encode()),
        ]
        await self._send({"type": "websocket.http.response.start", "status": error.code, "headers": headers})
        await self._send({"type": "websocket.http.response.body", "body": content})

    async def send(self, message: dict[str, object]) -> None:
        """Send a raw ASGI message: WebSockets."""
        if message["type"] == "websocket.accept":
            self.code = 101
            if self.trail is not None:
                self.trail.started(101)
        await self._send(message)


def pieces(parts: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The parts together, at least `size` bytes at a time but for the last."""
    waiting: list[bytes] = []
    length = 0
    for part in parts:
        waiting.append(part)
        length += len(part)
        if length >= size:
            yield b"".join(waiting)
            waiting, length = [], 0
    if waiting:
        yield b"".join(waiting)


def _enumerated(head: bytes, texts: list[bytes]) -> Iterator[bytes]:
    """The head and the texts with commas between them."""
    yield head
    for number, text in enumerate(texts):
        if number:
            yield b","
        yield text


def _quoted(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')
