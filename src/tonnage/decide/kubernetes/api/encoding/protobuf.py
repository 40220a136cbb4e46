"""Bodies in Kubernetes' protobuf, turned into the JSON that they stand for; the schema table has the numbers.

The envelope is `k8s\\0`, then a `runtime.Unknown`: type meta (1), raw message (2), encoding (3), type (4).

Source: k8s.io/apimachinery (runtime/serializer/protobuf, generated.proto), the protobuf wire format.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from tonnage.decide.kubernetes.api.encoding.body import BodyError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.timestamps import micro_timestamp, timestamp
from tonnage.wire.schema import Field, ObjectType, Schema

MAGIC: Final = b"k8s\x00"
DEEPEST: Final = 100
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_GROUP_PACKAGES: Final = {"": "core", "rbac.authorization.k8s.io": "rbac"}

Wire = tuple[int, int, int | bytes]
"""Field number, wire type, value."""


def decode_envelope(schema: Schema, content: bytes) -> JsonObject:
    """The object in a `application/vnd.kubernetes.protobuf` body, as JSON.

    Raises:
        BodyError: the body is malformed, or of a kind that the table lacks.
    """
    if content in (b"", MAGIC):
        raise BodyError("empty body" if content else "empty data")
    if not content.startswith(MAGIC):
        raise BodyError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    unknown = {number: value for number, _, value in _fields(content[len(MAGIC) :])}
    meta = {number: _text(value) for number, _, value in _fields(_raw(unknown.get(1, b"")))}
    api_version, kind = meta.get(1, ""), meta.get(2, "")
    described = type_of(schema, api_version, kind)
    if described is None:
        raise BodyError(f'no kind "{kind}" is registered for version "{api_version}"')
    obj = _message(schema, described, _raw(unknown.get(2, b"")), 0)
    return {**obj, "kind": kind, "apiVersion": api_version}


def type_of(schema: Schema, api_version: str, kind: str) -> ObjectType | None:
    """The type of a kind; options such as DeleteOptions exist in every group."""
    group, _, version = api_version.rpartition("/")
    package = _GROUP_PACKAGES.get(group, group.split(".", maxsplit=1)[0])
    return schema.types.get(f"{package}/{version}.{kind}") or schema.types.get(f"meta/v1.{kind}")


def _fields(content: bytes) -> Iterator[Wire]:
    """The fields of a message in the order of the bytes."""
    position = 0
    while position < len(content):
        key, position = _varint(content, position)
        number, wire_type = key >> 3, key & 7
        value: int | bytes
        if wire_type == _VARINT:
            value, position = _varint(content, position)
        elif wire_type in (_FIXED64, _FIXED32):
            size = 8 if wire_type == _FIXED64 else 4
            value, position = content[position : position + size], position + size
        elif wire_type == _BYTES:
            size, position = _varint(content, position)
            value, position = content[position : position + size], position + size
        else:
            raise BodyError(f"proto: illegal wireType {wire_type}")
        if position > len(content):
            raise BodyError("unexpected EOF")
        yield number, wire_type, value


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(content):
            raise BodyError("unexpected EOF")
        if shift > 63:
            raise BodyError("proto: integer overflow")
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _message(schema: Schema, described: ObjectType, content: bytes, depth: int) -> JsonObject:
    if depth > DEEPEST:
        raise BodyError("proto: exceeded max depth")
    by_number = {row.number: row for row in described.fields.values() if row.number}
    inlined = {inline.number: inline.ref for inline in described.inlined if inline.number}
    obj: JsonObject = {}
    for number, _, value in _fields(content):
        if number in inlined:
            obj |= _message(schema, schema.types[inlined[number]], _raw(value), depth + 1)
        elif (row := by_number.get(number)) is not None:
            _put(schema, obj, row, value, depth)
    return obj


def _put(schema: Schema, obj: JsonObject, row: Field, value: int | bytes, depth: int) -> None:
    if row.type == "array":
        held = obj.setdefault(row.name, [])
        assert isinstance(held, list)
        held.append(_element(schema, row, row.item, value, depth))
    elif row.type == "map":
        entry = {number: inner for number, _, inner in _fields(_raw(value))}
        pairs = obj.setdefault(row.name, {})
        assert isinstance(pairs, dict)
        pairs[_text(entry.get(1, b""))] = _element(schema, row, row.item, entry.get(2, b""), depth)
    else:
        obj[row.name] = _element(schema, row, row.type, value, depth)


def _element(schema: Schema, row: Field, word: str, value: int | bytes, depth: int) -> JsonValue:
    """One value, or one element of an array or map."""
    if word == "object":
        return _message(schema, schema.types[row.ref], _raw(value), depth + 1)
    if word.startswith("array:"):
        # A list in a map or a list travels as a message whose first field repeats.
        inner = word.partition(":")[2]
        return [_scalar(inner, element) for number, _, element in _fields(_raw(value)) if number == 1]
    if word.startswith("schema-or-"):
        return _union(schema, word, value, depth)
    return _scalar(word, value)


def _union(schema: Schema, word: str, value: int | bytes, depth: int) -> JsonValue:
    """A JSON schema, or what may stand instead of it."""
    described = schema.types["apiextensions/v1.JSONSchemaProps"]
    parts = {1: list[int | bytes](), 2: list[int | bytes]()}
    for number, _, inner in _fields(_raw(value)):
        parts.get(number, []).append(inner)
    ones, twos = parts[1], parts[2]
    if word == "schema-or-bool":
        return _message(schema, described, _raw(twos[-1]), depth + 1) if twos else bool(ones and ones[-1])
    if twos and word == "schema-or-array":
        return [_message(schema, described, _raw(element), depth + 1) for element in twos]
    if twos:
        return [_text(element) for element in twos]
    return _message(schema, described, _raw(ones[-1]), depth + 1) if ones else None


def _scalar(word: str, value: int | bytes) -> JsonValue:
    match word:
        case "string":
            return _text(value)
        case "bool":
            return bool(value) if isinstance(value, int) else False
        case "int32" | "int64":
            return _signed(value)
        case "float64":
            number: float = struct.unpack("<d", _raw(value))[0] if value else 0.0
            return int(number) if number.is_integer() else number
        case "bytes":
            return base64.b64encode(_raw(value)).decode("ascii")
        case "duration":
            return f"{_signed(_part(value, 1)) / 1e9:g}s"
        case "quantity":
            return _text(_part(value, 1)) or "0"
        case "int-or-string":
            return _text(_part(value, 3)) if _part(value, 1) == 1 else _signed(_part(value, 2))
        case "time" | "micro-time":
            return _instant(_signed(_part(value, 1)), _signed(_part(value, 2)), word)
        case _:
            return _json(_raw(_part(value, 1)))


def _part(value: int | bytes, number: int) -> int | bytes:
    """The last field of that number in a small message; 0 if it is not there."""
    return next(
        (inner for field_number, _, inner in reversed(list(_fields(_raw(value)))) if field_number == number),
        0,
    )


def _instant(seconds: int, nanos: int, word: str) -> JsonValue:
    if not seconds and not nanos:
        return None  # What a time that is not set looks like.
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise BodyError("proto: time out of range") from None
    return timestamp(moment) if word == "time" else micro_timestamp(moment)


def _json(content: bytes) -> JsonValue:
    """Raw JSON inside a message."""
    if not content:
        return None
    try:
        value: JsonValue = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        raise BodyError("proto: raw extension is not JSON") from None
    return value


def _raw(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    if value == 0:
        return b""
    raise BodyError("proto: wrong wireType")


def _signed(value: int | bytes) -> int:
    if isinstance(value, bytes):
        if value:
            raise BodyError("proto: wrong wireType")
        return 0
    return value - (1 << 64) if value >= 1 << 63 else value


def _text(value: int | bytes) -> str:
    try:
        return _raw(value).decode()
    except UnicodeDecodeError:
        raise BodyError("proto: string field contains invalid UTF-8") from None
