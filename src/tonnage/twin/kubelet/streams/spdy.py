"""SPDY/3.1 frames, as far as Kubernetes uses them: streams with headers, data, ping, goodbye. Pure.

Source: SPDY Protocol, Draft 3.1 (framing, name/value header block, compression dictionary).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from tonnage.twin.kubelet.streams.spdy_dictionary import DICTIONARY

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN: Final = 1
_CONTROL: Final = 0x80000000
_VERSION: Final = 3
_LARGEST_FRAME: Final = 1 << 20
_LARGEST_HEADERS: Final = 64 << 10
_DATA_PIECE: Final = 32 << 10


class SpdyError(Exception):
    """The peer does not speak SPDY/3.1 as it should."""


@dataclass(frozen=True, slots=True)
class SynStream:
    """The peer opens a stream; `fin` says that it will send no data on it."""

    stream: int
    headers: Mapping[str, str]
    fin: bool


@dataclass(frozen=True, slots=True)
class SynReply:
    """The peer accepts a stream."""

    stream: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DataFrame:
    """Data on a stream; `fin` ends that direction."""

    stream: int
    payload: bytes
    fin: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """A stream is broken off."""

    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    """To be sent back as it is."""

    number: int


@dataclass(frozen=True, slots=True)
class GoAway:
    """The peer opens no more streams."""


Frame: TypeAlias = SynStream | SynReply | DataFrame | Reset | Ping | GoAway


class SpdyCodec:
    """Both directions of one connection; header blocks share a compression state, so order matters."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def receive(self, received: bytes) -> Iterator[Frame]:
        """Frames that are complete now; unknown control frames are left out. Raises SpdyError."""
        self._buffer += received
        at = 0
        try:
            while len(self._buffer) >= at + 8:
                word, rest = struct.unpack_from(">II", self._buffer, at)
                length = rest & 0xFFFFFF
                if length > _LARGEST_FRAME:
                    raise SpdyError("a frame of more than one MiB")
                if len(self._buffer) < at + 8 + length:
                    return
                body, at = bytes(self._buffer[at + 8 : at + 8 + length]), at + 8 + length
                frame = self._frame(word, rest >> 24, body)
                if frame is not None:
                    yield frame
        finally:
            del self._buffer[:at]  # once: a buffer may hold a hundred thousand frames

    def syn_stream(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Open a stream."""
        block = struct.pack(">IIH", stream, 0, 0) + self._headers(headers)
        return _control(_SYN_STREAM, 0, block)

    def syn_reply(self, stream: int, headers: Mapping[str, str] | None = None) -> bytes:
        """Accept a stream."""
        return _control(_SYN_REPLY, 0, struct.pack(">I", stream) + self._headers(headers or {}))

    def _frame(self, word: int, flags: int, body: bytes) -> Frame | None:
        fin = bool(flags & _FIN)
        if not word & _CONTROL:
            return DataFrame(word & 0x7FFFFFFF, body, fin)
        version, kind = word >> 16 & 0x7FFF, word & 0xFFFF
        if version != _VERSION:
            raise SpdyError(f"version {version}")
        try:
            if kind == _SYN_STREAM:
                stream = struct.unpack_from(">I", body)[0] & 0x7FFFFFFF
                return SynStream(stream, self._read_headers(body[10:]), fin)
            if kind == _SYN_REPLY:
                stream = struct.unpack_from(">I", body)[0] & 0x7FFFFFFF
                return SynReply(stream, self._read_headers(body[4:]))
            if kind == _RST_STREAM:
                return Reset(struct.unpack_from(">I", body)[0] & 0x7FFFFFFF)
            if kind == _PING:
                return Ping(struct.unpack(">I", body)[0])
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise SpdyError(str(error)) from error
        return GoAway() if kind == _GOAWAY else None

    def _headers(self, headers: Mapping[str, str]) -> bytes:
        parts = [struct.pack(">I", len(headers))]
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                parts += [struct.pack(">I", len(text)), text]
        return self._deflate.compress(b"".join(parts)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def _read_headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block, _LARGEST_HEADERS)
        if self._inflate.unconsumed_tail:
            raise SpdyError("headers of more than 64 KiB")
        count = struct.unpack_from(">I", plain)[0]
        at = 4
        headers: dict[str, str] = {}
        for _ in range(min(count, 1000)):
            name, at = _text(plain, at)
            value, at = _text(plain, at)
            headers[name] = value
        return headers


def data_frames(stream: int, content: bytes, *, fin: bool = False) -> bytes:
    """Data in frames of 32 KiB; without data a single one, which makes sense with `fin` only."""
    pieces = [content[at : at + _DATA_PIECE] for at in range(0, len(content), _DATA_PIECE)] or [b""]
    frames = []
    for index, piece in enumerate(pieces):
        flags = _FIN if fin and index == len(pieces) - 1 else 0
        frames.append(struct.pack(">II", stream, flags << 24 | len(piece)) + piece)
    return b"".join(frames)


def ping(number: int) -> bytes:
    """A ping, or the answer to one."""
    return _control(_PING, 0, struct.pack(">I", number))


def go_away(last_stream: int) -> bytes:
    """Goodbye, all in order."""
    return _control(_GOAWAY, 0, struct.pack(">II", last_stream, 0))


def _control(kind: int, flags: int, body: bytes) -> bytes:
    return struct.pack(">II", _CONTROL | _VERSION << 16 | kind, flags << 24 | len(body)) + body


def _text(plain: bytes, at: int) -> tuple[str, int]:
    length = struct.unpack_from(">I", plain, at)[0]
    start, end = at + 4, at + 4 + length
    if end > len(plain):
        raise SpdyError("a header block that ends early")
    return plain[start:end].decode(), end
