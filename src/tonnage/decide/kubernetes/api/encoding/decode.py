"""A body turned into the object that the server stores: known fields only, each in its canonical form.

Source: sigs.k8s.io/json (decoder and its messages), k8s.io/apimachinery (runtime/serializer/json).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NoReturn

from tonnage.decide.kubernetes.api.encoding import scalars
from tonnage.decide.kubernetes.api.encoding.body import BodyError, Repeated, repeated_lines, strict_error
from tonnage.model.json import JsonObject, JsonValue
from tonnage.wire.schema import Field, ObjectType, Schema

MOST_STRICT: Final = 100
_EVEN_EMPTY: Final = {
    "apiextensions/v1.CustomResourceDefinitionSpec": ("versions",),
    "apiextensions/v1.JSONSchemaProps": ("dependencies",),
    "autoscaling/v2.HPAScalingRules": ("policies",),
}
"""Lists and maps that are kept even empty: each is refused then."""
NEVER_IN_TEMPLATES: Final = ("finalizers", "managedFields", "ownerReferences")
_TEMPLATES: Final = ("core/v1.PersistentVolumeClaimTemplate", "resource/v1.ResourceClaimTemplateSpec")
"""Types whose metadata may not have these, even empty."""


def even_empty(type_name: str) -> tuple[str, ...]:
    """Fields of a type that are kept even empty."""
    return _EVEN_EMPTY.get(type_name, ())


"""So many unknown or duplicate fields are reported at most."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The object as stored, and `unknown field "a.b"`, `duplicate field "a.b"` for what was passed over."""

    value: JsonObject
    unknown: tuple[str, ...] = ()


@dataclass(slots=True)
class _Walk:
    """Where the decoder stands: as messages about types say it (`stack`), as strict errors do (`path`)."""

    schema: Schema
    stored: bool = False
    counted: tuple[str, ...] = ()
    """Fields of the metadata to come that count even if they are empty."""
    struct: str = ""
    stack: list[str] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    strict: dict[str, None] = field(default_factory=dict)

    def note(self, complaint: str, key: str) -> None:
        if len(self.strict) < MOST_STRICT:
            self.strict[f'{complaint} "{".".join([*self.path, key]).replace(".[", "[")}"'] = None

    def fail(self, value: JsonValue, go_type: str, *, number: bool = False) -> NoReturn:
        """Refuse a value of the wrong type; where a number was wanted, a number is named."""
        where = f"Go struct field {self.struct}.{'.'.join(self.stack)}" if self.stack else "Go value"
        subject = scalars.describe(value)
        subject = f"{subject} {value}" if number and subject == "number" and go_type != "string" else subject
        raise BodyError(f"json: cannot unmarshal {subject} into {where} of type {go_type}")


def decode(
    schema: Schema, type_name: str, body: JsonValue, *, strict: bool = False, stored: bool = False
) -> Decoded:
    """The object of that type (`core/v1.Pod`) that a JSON body says.

    Unknown fields are dropped and named; null and, where Go leaves them out, zero values are dropped;
    what Go always writes is filled in (`status: {}`). Quantities, times and base64 come out canonical.
    With `stored`, an empty list or map is none at all, as in the database, which keeps protobuf.

    Raises:
        BodyError: a value has the wrong type; or, with `strict`, a field is unknown or stands twice.
    """
    subject = _subject(type_name, body)
    try:
        if not isinstance(body, dict):
            raise BodyError(
                "couldn't get version/kind; json parse error: json: cannot unmarshal "
                f"{scalars.describe(body)} into Go value of type struct"
            )
        walk, lines = _Walk(schema, stored), repeated_lines(body)
        value = _object(walk, schema.types[type_name], body)
        if strict and (walk.strict or lines):
            raise BodyError(strict_error(tuple(walk.strict), lines))
    except BodyError as error:
        raise BodyError(error.detail, subject=subject) from None
    return Decoded(value, (*lines, *walk.strict))


def _subject(type_name: str, body: JsonValue) -> str:
    """`Pod in version "v1" cannot be handled as a Pod`."""
    package, name = type_name.rsplit(".", 1)
    fields = body if isinstance(body, dict) else {}
    kind = fields.get("kind") or name
    version = str(fields.get("apiVersion") or package).rsplit("/", 1)[-1]
    return f'{kind} in version "{version}" cannot be handled as a {name}'


def _object(walk: _Walk, described: ObjectType, body: JsonObject) -> JsonObject:
    fields = described.fields
    values: JsonObject = {}
    even_empty_fields = walk.counted or even_empty(described.name)
    walk.counted = ()
    outer, struct = walk.struct, described.name.rsplit(".", 1)[-1]
    repeated = body.repeated if isinstance(body, Repeated) else ()
    for key, value in body.items():
        row = fields.get(key)
        if row is None:
            walk.note("unknown field", key)
            continue
        if key in repeated:
            walk.note("duplicate field", key)
        if value is None:
            continue
        depth = len(walk.stack)
        walk.struct = struct
        walk.stack += (*row.inside, key)
        walk.path.append(key)
        if key == "metadata" and described.name in _TEMPLATES:
            walk.counted = NEVER_IN_TEMPLATES
        values[key] = _value(walk, row, value)
        walk.path.pop()
        del walk.stack[depth:]
    walk.struct = outer
    return _written(walk, fields, values, even_empty_fields)


def _written(
    walk: _Walk, fields: dict[str, Field], values: JsonObject, even_empty_fields: tuple[str, ...]
) -> JsonObject:
    """The fields that Go writes, in its order."""
    ordered: JsonObject = {}
    for name, row in fields.items():
        if name in even_empty_fields and name in values:
            ordered[name] = values[name]
        elif name in values and not (walk.stored and row.type in _HOLDERS and values[name] in _EMPTY):
            value = values[name]
            if row.keep or row.pointer or value not in _ZEROES:
                ordered[name] = value
        elif row.keep:
            ordered[name] = zero_value(walk.schema, row)
    return ordered


_HOLDERS: Final = ("array", "map")
_EMPTY: Final[tuple[JsonValue, ...]] = ([], {})
_ZEROES: Final[tuple[JsonValue, ...]] = ("", 0, [], {})


def zero_value(schema: Schema, row: Field) -> JsonValue:
    """What Go writes for a field that nobody set and that is not left out."""
    if row.pointer:
        return None
    if row.type == "object":
        fields = schema.types[row.ref].fields
        return {name: zero_value(schema, inner) for name, inner in fields.items() if inner.keep}
    return scalars.ZERO.get(row.type)


def _value(walk: _Walk, row: Field, value: JsonValue) -> JsonValue:
    if row.type == "object":
        if not isinstance(value, dict):
            walk.fail(value, go_name(row.type, row))
        return _object(walk, walk.schema.types[row.ref], value)
    if row.type == "array":
        return _array(walk, row, row.item, value)
    if row.type == "map":
        return _map(walk, row, value)
    return _scalar(walk, row.type, row, value)


def _array(walk: _Walk, row: Field, word: str, value: JsonValue) -> JsonValue:
    if not isinstance(value, list):
        named = row.go.partition("]")[2] or f"[]{word}"
        walk.fail(value, go_name("array", row) if row.type == "array" else named)
    elements: list[JsonValue] = []
    for index, element in enumerate(value):
        walk.path.append(f"[{index}]")
        elements.append(_element(walk, row, word, element))
        walk.path.pop()
    return elements


def _map(walk: _Walk, row: Field, value: JsonValue) -> JsonValue:
    if not isinstance(value, dict):
        walk.fail(value, go_name("map", row))
    repeated = value.repeated if isinstance(value, Repeated) else ()
    entries: JsonObject = {}
    for key, element in value.items():
        if key in repeated:
            walk.note("duplicate field", key)
        walk.path.append(key)
        entries[key] = _element(walk, row, row.item, element)
        walk.path.pop()
    return dict(sorted(entries.items()))


def _element(walk: _Walk, row: Field, word: str, value: JsonValue) -> JsonValue:
    """One element of an array or a map."""
    if word.startswith("array:"):
        return [] if value is None else _array(walk, row, word.partition(":")[2], value)
    if word == "object":
        if value is not None and not isinstance(value, dict):
            walk.fail(value, go_name("object", row))
        return _object(walk, walk.schema.types[row.ref], value or {})
    if value is None:
        return "" if word == "bytes" and walk.stored else scalars.ZERO.get(word)
    return _scalar(walk, word, row, value)


def _scalar(walk: _Walk, word: str, row: Field, value: JsonValue) -> JsonValue:
    read: Callable[[JsonValue], JsonValue] | None = scalars.READERS.get(word)
    if read is None:
        return value if word == "raw" else _union(walk, word, value)
    try:
        return read(value)
    except scalars.WrongTypeError as error:
        walk.fail(value, error.go_type or go_name(word, row), number=word not in ("string", "bool", "bytes"))
    except ValueError as error:
        raise BodyError(str(error)) from None


def _union(walk: _Walk, word: str, value: JsonValue) -> JsonValue:
    """A JSON schema where a list of them, a bool or a list of strings may stand instead."""
    described = walk.schema.types["apiextensions/v1.JSONSchemaProps"]
    if isinstance(value, dict):
        return _object(walk, described, value)
    if word == "schema-or-array" and isinstance(value, list):
        return [
            _object(walk, described, element) if isinstance(element, dict) else element for element in value
        ]
    if (word == "schema-or-bool" and isinstance(value, bool)) or isinstance(value, list):
        return value
    raise BodyError(
        "boolean or JSON schema expected"
        if word == "schema-or-bool"
        else f"unexpected {scalars.describe(value)}"
    )


def go_name(word: str, row: Field) -> str:
    """The Go type that a message names for a field, or for an element of it."""
    if word == row.type and row.go:
        return row.go
    if word == "array":
        return f"[]{go_name(row.item, row)}"
    if word == "map":
        return f"map[string]{go_name(row.item, row)}"
    if word == "object":
        return row.ref.rsplit("/", 1)[-1]
    if row.go and word == row.item:
        named = row.go.removeprefix("[]") if row.go.startswith("[]") else row.go.partition("]")[2]
        return named or scalars.GO_NAMES.get(word, word)
    return scalars.GO_NAMES.get(word, word)
