"""Hostile messages and streams."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zlib
from collections.abc import Iterator
from typing import Final

from tonnage.twin.kubelet.streams.spdy import SpdyCodec, data_frames, ping
from tonnage.twin.kubelet.streams.spdy_dictionary import DICTIONARY

_CONTROL: Final = 0x80030000


def protobuf(size: int) -> Iterator[bytes]:
    """Lengths in lengths, lengths beyond the end, long numbers, groups, many fields, empty ones."""
    nested = b""
    for _ in range(min(size, 2000)):
        nested = b"\x0a" + _varint(len(nested)) + nested
    yield nested
    yield b"\x0a\xff\xff\xff\xff\x0f"
    yield b"\x0a" + b"\xff" * size
    yield b"\x08" + b"\x80" * size
    yield b"\x0b" * size
    yield b"\x0b" * size + b"\x0c" * size
    yield b"\x0a\x00" * size
    yield b"\x12\x00" * size
    yield b"\x0a\x02\x0a\x00" * size
    yield b"\x0a" + _varint(size) + b"\xff" * size
    yield b"\x0a" + _varint(size) + b"x" * size


def kubernetes_protobuf(size: int) -> Iterator[bytes]:
    """The same in the envelope of Kubernetes: as the envelope, as metadata, as JSON schemas in each other."""
    kinds = ((b"v1", b"ConfigMap"), (b"apiextensions.k8s.io/v1", b"CustomResourceDefinition"))
    for body in protobuf(size):
        yield b"k8s\0" + body
        for version, kind in kinds:
            yield _envelope(version, kind, body)
            yield _envelope(version, kind, b"\x0a" + _varint(len(body)) + body)
    schema = b""
    for _ in range(min(size, 400)):
        schema = b"\xaa\x01" + _varint(len(schema)) + schema
    yield _envelope(*kinds[1], b"\x12" + _varint(len(schema)) + schema)
    yield _envelope(
        *kinds[0], b"\x12\x08\x0a\x01a\x12\x03" + b"\xff" * 3 + b"\x12\x06\x0a\x01a\x12\x01b" * size
    )


def _envelope(version: bytes, kind: bytes, body: bytes) -> bytes:
    meta = b"\x0a" + _varint(len(version)) + version + b"\x12" + _varint(len(kind)) + kind
    return b"k8s\0\x0a" + _varint(len(meta)) + meta + b"\x12" + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def cbor(size: int) -> Iterator[bytes]:
    """Depth, lengths that cannot be, tags on tags, pieces without end."""
    for start in (b"\x81", b"\xa1\x61a", b"\x9f", b"\xbf\x61a", b"\xc1", b"\xd9\xd9\xf7", b"\x5f", b"\x7f"):
        yield start * size
    yield b"\x9b" + b"\xff" * 8
    yield b"\xbb" + b"\xff" * 8
    yield b"\x5b\x7f" + b"\xff" * 7
    yield b"\xc2\x5a" + struct.pack(">I", size) + b"\xff" * size


def http(size: int) -> Iterator[bytes]:
    """Bytes of a connection: floods of headers, lines without end, chunks, many requests at once."""
    yield b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * size
    yield b"GET /" + b"x" * size
    yield b"GET / HTTP/1.1\r\nhost: x\r\ncookie: " + b"x" * size
    yield b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" * min(size, 2000)
    chunked = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    yield chunked + b"1\r\nx\r\n" * size
    yield chunked + b"f" * size
    yield chunked + b"1;" + b"a=b;" * size
    yield chunked + b"0\r\n" + b"a: b\r\n" * size
    yield b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: " + b"9" * size + b"\r\n\r\n"
    yield b"\r\n" * size
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * size


def spdy(size: int) -> Iterator[bytes]:
    """Many small frames, headers that unpack to much, counts and lengths that cannot be."""
    yield data_frames(3, b"") * size
    yield ping(1) * size
    yield struct.pack(">II", 3, 0xFFFFFF) + b"x" * size
    yield struct.pack(">II", 3, 1 << 20) + b"x" * size
    codec = SpdyCodec()
    yield b"".join(codec.syn_stream(2 * n + 1, {"streamtype": "stdin"}) for n in range(min(size, 3000)))
    for block in (b"\0" * (size * 1000), b"\xff" * size, struct.pack(">I", size) + b"\0" * (8 * size)):
        body = struct.pack(">IIH", 1, 0, 0) + _deflated(block)
        yield struct.pack(">II", _CONTROL | 1, len(body)) + body


def _deflated(block: bytes) -> bytes:
    deflate = zlib.compressobj(zdict=DICTIONARY)
    return deflate.compress(block) + deflate.flush(zlib.Z_SYNC_FLUSH)


def messages(size: int) -> Iterator[bytes]:
    """Input over a WebSocket: many pieces, long ones."""
    yield b"\0x\n" * size
    yield b"\0" + b"x" * (size * 10)
    yield b"\xff\0\n" * size


def archives(size: int) -> Iterator[bytes]:
    """Archives of many entries, of sizes that cannot be, with long names, packed ones."""
    for entry in (tarfile.DIRTYPE, tarfile.REGTYPE):
        yield _archive(entry, min(size, 2000))
    whole = _archive(tarfile.REGTYPE, 1)
    yield whole[:124] + b"77777777777\0" + whole[136:]
    yield gzip.compress(b"\0" * (size * 1000), 9)
    long = tarfile.TarInfo("a/" * min(size, 4000))
    yield long.tobuf(tarfile.PAX_FORMAT) + bytes(1024)
    sparse = tarfile.TarInfo("a")
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9" * 18}
    yield sparse.tobuf(tarfile.PAX_FORMAT) + bytes(1024)


def _archive(kind: bytes, count: int) -> bytes:
    packed_in = io.BytesIO()
    with tarfile.open(fileobj=packed_in, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(count):
            entry = tarfile.TarInfo(f"e{number}")
            entry.type = kind
            archive.addfile(entry)
    return packed_in.getvalue()
