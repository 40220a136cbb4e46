"""Objects in Kubernetes' protobuf, as its own generated code writes them: the schema table has the numbers.

What is no pointer in Go is always written, in the order of the numbers; `protobuf` reads the same.

Source: k8s.io/apimachinery (runtime/serializer/protobuf), the generated.pb.go of k8s.io/api (v1.35).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from tonnage.decide.kubernetes.api.encoding.protobuf import MAGIC, type_of
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import items, mapping, number, text
from tonnage.wire.schema import Field, ObjectType, Schema, load_schema

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_MESSAGES: Final = frozenset({"v1.Verbs"})
"""Lists that are messages of their own."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def encode_envelope(obj: JsonObject) -> bytes:
    """An object, a list or a Status in its envelope."""
    schema = load_schema()
    kind, version = text(obj, "kind"), text(obj, "apiVersion")
    meta = text_field(1, version) + text_field(2, kind)
    unknown = (
        bytes_field(1, meta)
        + bytes_field(2, _whole(schema, obj, version, kind))
        + text_field(3, "")
        + text_field(4, "")
    )
    return MAGIC + unknown


def encode_event(type_: str, obj: JsonObject) -> bytes:
    """An event of a watch, with its length before it."""
    event = text_field(1, type_) + bytes_field(2, bytes_field(1, encode_envelope(obj)))
    return struct.pack(">I", len(event)) + event


def _whole(schema: Schema, obj: JsonObject, version: str, kind: str) -> bytes:
    """The message of an object that no other holds."""
    described = type_of(schema, version, kind)
    if described is not None:
        return _message(schema, described, obj)
    if "items" in obj:
        held = kind.removesuffix("List")
        elements = (
            bytes_field(2, _whole(schema, element, version, held))
            for element in items(obj, "items")
            if isinstance(element, dict)
        )
        return bytes_field(1, _list_meta(mapping(obj, "metadata"))) + b"".join(elements)
    return bytes_field(1, _message(schema, schema.types["meta/v1.ObjectMeta"], mapping(obj, "metadata")))


def _list_meta(metadata: JsonObject) -> bytes:
    left = number(metadata, "remainingItemCount", default=-1)
    written = (
        text_field(1, "")
        + text_field(2, text(metadata, "resourceVersion"))
        + text_field(3, text(metadata, "continue"))
    )
    return written + (number_field(4, left) if left >= 0 else b"")


def _message(schema: Schema, described: ObjectType, value: JsonObject) -> bytes:
    parts = [
        (row.number, b"".join(_field(schema, row, value.get(row.name))))
        for row in described.fields.values()
        if row.number
    ]
    parts += [
        (inline.number, bytes_field(inline.number, _message(schema, schema.types[inline.ref], value)))
        for inline in described.inlined
        if inline.number
    ]
    return b"".join(part for _, part in sorted(parts, key=lambda numbered: numbered[0]))


def _field(schema: Schema, row: Field, value: JsonValue) -> Iterator[bytes]:
    """The field as often as it is written."""
    if row.go in _MESSAGES:
        held = value if isinstance(value, list) else []
        yield bytes_field(row.number, b"".join(_scalar(row.item, 1, element) for element in held))
    elif row.type == "array":
        for element in value if isinstance(value, list) else ():
            yield _element(schema, row, row.item, row.number, element)
    elif row.type == "map":
        for key, element in sorted(value.items()) if isinstance(value, dict) else ():
            yield bytes_field(row.number, text_field(1, key) + _element(schema, row, row.item, 2, element))
    elif value is not None or not (row.pointer or row.type in ("bytes", "raw") or "-or-a" in row.type):
        yield _element(schema, row, row.type, row.number, value)


def _element(schema: Schema, row: Field, word: str, at: int, value: JsonValue) -> bytes:
    """One value, or one element of an array or a map."""
    if word == "object":
        return bytes_field(
            at, _message(schema, schema.types[row.ref], value if isinstance(value, dict) else {})
        )
    if word.startswith("array:"):
        inner = word.partition(":")[2]
        held = value if isinstance(value, list) else []
        return bytes_field(at, b"".join(_scalar(inner, 1, element) for element in held))
    if word.startswith("schema-or-"):
        return bytes_field(at, _union(schema, word, value))
    return _scalar(word, at, value)


def _union(schema: Schema, word: str, value: JsonValue) -> bytes:
    """A JSON schema, or what may stand instead of it."""
    described = schema.types["apiextensions/v1.JSONSchemaProps"]
    if word == "schema-or-bool":
        allowed = _scalar("bool", 1, value is not False)
        return allowed + (
            bytes_field(2, _message(schema, described, value)) if isinstance(value, dict) else b""
        )
    if isinstance(value, dict):
        return bytes_field(1, _message(schema, described, value))
    held = value if isinstance(value, list) else []
    return b"".join(
        bytes_field(2, _message(schema, described, element))
        if isinstance(element, dict)
        else text_field(2, str(element))
        for element in held
    )


def _scalar(word: str, at: int, value: JsonValue) -> bytes:
    match word:
        case "string":
            return text_field(at, value if isinstance(value, str) else "")
        case "bool":
            return number_field(at, int(value is True))
        case "int32" | "int64":
            return number_field(at, _whole_number(value))
        case "float64":
            return float_field(at, value if isinstance(value, int | float) else 0.0)
        case "bytes":
            return bytes_field(at, base64.b64decode(value) if isinstance(value, str) else b"")
        case "duration":
            return bytes_field(at, number_field(1, _nanoseconds(value)))
        case "quantity":
            return bytes_field(at, text_field(1, str(value if value is not None else "0")))
        case "int-or-string":
            is_text = isinstance(value, str)
            number_ = number_field(1, int(is_text)) + number_field(2, _whole_number(value))
            return bytes_field(at, number_ + text_field(3, value if isinstance(value, str) else ""))
        case "time" | "micro-time":
            return bytes_field(at, _instant(value) if isinstance(value, str) else b"")
        case _:
            return bytes_field(at, bytes_field(1, msgspec.json.encode(value)))


def _whole_number(value: JsonValue) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _nanoseconds(value: JsonValue) -> int:
    return round(float(value.removesuffix("s")) * 1e9) if isinstance(value, str) else 0


def _instant(written: str) -> bytes:
    past = datetime.fromisoformat(written) - _EPOCH
    seconds = past.days * 86400 + past.seconds
    return number_field(1, seconds) + number_field(2, past.microseconds * 1000)


def text_field(at: int, value: str) -> bytes:
    """A text at a number."""
    return bytes_field(at, value.encode())


def bytes_field(at: int, value: bytes) -> bytes:
    """Bytes, or a message that has been written, at a number."""
    return _key(at, _BYTES) + _varint(len(value)) + value


def number_field(at: int, value: int) -> bytes:
    """A whole number, or 0 and 1 for false and true, at a number."""
    return _key(at, _VARINT) + _varint(value)


def float_field(at: int, value: float) -> bytes:
    """A number of eight bytes at a number."""
    return _key(at, _FIXED64) + struct.pack("<d", value)


def _key(at: int, wire_type: int) -> bytes:
    return _varint(at << 3 | wire_type)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
