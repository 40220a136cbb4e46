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
_LINE: Final = msgspec.json.Decoder(Line)


class ObjectReader:
    """Reads the objects of one cluster."""

    def __init__(self) -> None:
        bulk = Bulk()
        self._decoders: Mapping[KindKey, msgspec.json.Decoder[Any]] = {
            key: msgspec.json.Decoder(kind.type) for key, kind in READ.items()
        }
        self._many: Mapping[KindKey, Callable[[bytes], Readable]] = {
            ("v1", "Pod"): bulk.pod,
            ("v1", "Node"): bulk.node,
            (NODE_GPU_STATUS.api_version, NODE_GPU_STATUS.kind): bulk.report,
        }

    def read(self, text: bytes, kind: KindKey) -> Readable | None:
        """The object; None of a kind that bears on nothing. Raises msgspec.DecodeError, RecursionError."""
        decoder = self._decoders.get(kind)
        return self._decoded(text, kind, decoder) if decoder is not None else None

    def read_known(self, text: bytes, kind: Kind[Any]) -> Readable:
        """An object of a kind that bears on answers. Raises msgspec.DecodeError, RecursionError."""
        key = (kind.api_version, kind.kind)
        return self._decoded(text, key, self._decoders[key])

    def _decoded(self, text: bytes, kind: KindKey, decoder: msgspec.json.Decoder[Any]) -> Readable:
        try:
            obj: Readable = self._many[kind](text) if kind in self._many else decoder.decode(text)
        except msgspec.DecodeError:
            obj = decoded_leniently(text, decoder)
        return obj


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
        with collector_paused():
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
        obj = reader.read(text, kind if kind[1] else own)
        if obj is not None:
            yield obj


@contextmanager
def collector_paused() -> Iterator[None]:
    """No search for garbage while millions of objects are made, and none dropped: it takes half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
