"""Objects out of their JSON text: the kinds that bear on answers, those that abound the quick way."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from tonnage.adapters.snapshots.bulk import Bulk
from tonnage.adapters.snapshots.format import Line
from tonnage.adapters.snapshots.limit import Meter
from tonnage.model.json import JsonValue, parsed_json
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.reading.cluster import Readable, snapshot_from
from tonnage.reading.documents import READ
from tonnage.reading.null_fields import without_nulls
from tonnage.wire.decode import UNDECODABLE, decoded_json
from tonnage.wire.kinds import NODE_GPU_STATUS, Kind

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
    decode = quick or decoder.decode

    def read(text: bytes) -> Readable:
        try:
            obj: Readable = decode(text)
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


class _Nothing(msgspec.Struct, gc=False):
    pass


class _Head(msgspec.Struct, rename="camel", gc=False):
    metadata: _Nothing
    api_version: str = ""
    kind: str = ""


class _Heads(msgspec.Struct):
    """What the objects of a List are, and how many: one that has no metadata ends the reading."""

    items: list[_Head]


def load_list(content: bytes, meter: Meter) -> Snapshot | None:
    """The cluster out of one List, quickly; None: it is none, or has a fault that a person must hear of.

    Raises ConfigError: it comes to too much.
    """
    parts = _list(content, meter)
    if parts is None:
        return None
    try:
        with collector_paused(freeze=True):
            return snapshot_from(_items(*parts, meter))
    except UNDECODABLE:
        return None


def lists_in(content: bytes, meter: Meter) -> Iterator[JsonValue] | None:
    """One List as many of one item each, of which no two need be held; None where it is no List.

    Raises:
        ValueError: an item is no JSON, or has a key twice.
        ConfigError: it comes to too much.
    """
    parts = _list(content, meter)
    return None if parts is None else _single(parts[0], meter)


def _single(whole: _List, meter: Meter) -> Iterator[JsonValue]:
    for number, raw in enumerate(whole.items, 1):
        text = bytes(raw)
        meter.read(text, number)
        yield {
            "apiVersion": whole.api_version,
            "kind": whole.kind,
            "items": [parsed_json(text, unique=True)],
        }


def _list(content: bytes, meter: Meter) -> tuple[_List, list[KindKey]] | None:
    """A List, and what its objects say that they are."""
    try:
        heads: list[_Head] = decoded_json(content, _Heads).items
        meter.items(len(heads))
        keys: dict[KindKey, KindKey] = {}
        kinds = [keys.setdefault(key, key) for key in ((head.api_version, head.kind) for head in heads)]
        del heads
        whole: _List = decoded_json(content, _List)
    except msgspec.DecodeError:
        return None
    return (whole, kinds) if whole.kind.endswith("List") else None


def _items(whole: _List, kinds: list[KindKey], meter: Meter) -> Iterator[Readable]:
    reader, own = ObjectReader(), (whole.api_version, whole.kind.removesuffix("List"))
    for number, (raw, kind) in enumerate(zip(whole.items, kinds, strict=True), 1):
        text = bytes(raw)
        meter.read(text, number)
        if kind[1].endswith("List"):
            raise msgspec.DecodeError("a list is inside a list")
        read = reader.of(kind if kind[1] else own)
        if read is not None:
            yield read(text)


@contextmanager
def collector_paused(*, freeze: bool = False) -> Iterator[None]:
    """No search for garbage while millions of objects are made, and none dropped: it takes half the time.

    `freeze`: what was made stays as long as the process, and is never searched, as that would take time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if freeze:
            gc.freeze()
        if enabled:
            gc.enable()
