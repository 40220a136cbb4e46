"""Objects out of their JSON text: the kinds that bear on answers, those that abound the quick way."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from tonnage.adapters.reading import Readable, snapshot_from
from tonnage.adapters.reading_documents import READ
from tonnage.adapters.snapshots.bulk import Bulk
from tonnage.adapters.snapshots.format import Line
from tonnage.model.cluster import Snapshot
from tonnage.wire.kinds import NODE_GPU_STATUS, Kind
from tonnage.wire.nulls import without_nulls

KindKey = tuple[str, str]
"""apiVersion and kind."""
Read = Callable[[bytes], Readable]
"""Makes an object of its text. Raises msgspec.DecodeError, RecursionError."""
_LINE: Final = msgspec.json.Decoder(Line)


class ObjectReader:
    """Reads the objects of one cluster."""

    def __init__(self) -> None:
        bulk = Bulk()
        many: Mapping[KindKey, Read] = {
            ("v1", "Pod"): bulk.pod,
            ("v1", "Node"): bulk.node,
            (NODE_GPU_STATUS.api_version, NODE_GPU_STATUS.kind): bulk.report,
        }
        self._read = {
            key: _reading(msgspec.json.Decoder(kind.type), many.get(key)) for key, kind in READ.items()
        }

    def of(self, kind: KindKey) -> Read | None:
        """What reads objects of a kind; None of a kind that bears on nothing."""
        return self._read.get(kind)

    def read_known(self, text: bytes, kind: Kind[Any]) -> Readable:
        """An object of a kind that bears on answers. Raises msgspec.DecodeError, RecursionError."""
        return self._read[kind.api_version, kind.kind](text)


def _reading(decoder: msgspec.json.Decoder[Any], quick: Read | None) -> Read:
    first = quick or decoder.decode

    def read(text: bytes) -> Readable:
        try:
            obj: Readable = first(text)
        except msgspec.DecodeError:
            obj = decoded_leniently(text, decoder)
        return obj

    return read


def decoded_leniently(text: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """What the decoder makes of it, with fields that are null or without. Raises msgspec.DecodeError."""
    try:
        return decoder.decode(text)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(msgspec.json.decode(text)), decoder.type)


def kind_of(text: bytes) -> KindKey:
    """What an object says that it is. Raises msgspec.DecodeError."""
    line = _LINE.decode(text)
    return line.api_version, line.kind


class _List(msgspec.Struct, rename="camel"):
    kind: str
    items: list[msgspec.Raw]
    api_version: str = ""


def load_list(content: bytes) -> Snapshot | None:
    """The cluster out of one List, quickly; None: it is none, or has a fault that a person must hear of."""
    try:
        found = msgspec.json.decode(content, type=_List)
        if not found.kind.endswith("List"):
            return None
        with collector_paused(kept=True):
            return snapshot_from(_items(found))
    except (msgspec.DecodeError, RecursionError):
        return None


def _items(found: _List) -> Iterator[Readable]:
    reader, own = ObjectReader(), (found.api_version, found.kind.removesuffix("List"))
    for item in found.items:
        text = bytes(item)
        kind = kind_of(text)
        if kind[1].endswith("List"):
            raise msgspec.DecodeError("a list in a list")
        read = reader.of(kind if kind[1] else own)
        if read is not None:
            yield read(text)


@contextmanager
def collector_paused(*, kept: bool = False) -> Iterator[None]:
    """No search for garbage while millions of objects are made, and none dropped: it takes half the time.

    `kept`: what was made stays as long as the process, and is never searched, which would hold up an answer.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if kept:
            gc.freeze()
        if enabled:
            gc.enable()
