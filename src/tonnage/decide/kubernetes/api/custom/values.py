"""Objects of a custom kind by its schema: metadata decoded, unknown fields pruned, defaults filled in.

Source: k8s.io/apiextensions-apiserver (apiserver/schema/{pruning,defaulting}), v1.35.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from tonnage.decide.kubernetes.api.custom.embedded import decode_metadata, schema_of, whole_objects
from tonnage.decide.kubernetes.api.custom.structural import EMBEDDED, PRESERVE
from tonnage.decide.kubernetes.api.encoding.body import (
    BodyError,
    copy_json,
    repeated_fields,
    repeated_lines,
    strict_error,
)
from tonnage.decide.kubernetes.api.encoding.decode import Decoded, decode
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import flag, mapping
from tonnage.wire.schema import Schema

_META: Final = ("apiVersion", "kind", "metadata")
_MOST: Final = 2**63 - 1


@dataclass(slots=True)
class _Pruner:
    """Where pruning stands, and what it dropped."""

    path: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def drop(self, key: str) -> None:
        self.unknown.append(f'unknown field "{".".join([*self.path, key]).replace(".[", "[")}"')


def decode_custom(
    schema: Schema, kind_schema: JsonObject, body: JsonObject, *, strict: bool = False
) -> Decoded:
    """An object of a custom kind as it is stored: metadata decoded, unknown fields dropped, defaults set.

    Raises:
        BodyError: metadata has a wrong type, or with `strict` a field is unknown or stands twice.
    """
    meta: JsonObject = {key: body[key] for key in ("apiVersion", "kind", "metadata") if key in body}
    try:
        decoded = decode(schema, "meta/v1.PartialObjectMetadata", meta)
    except BodyError as error:
        detail = error.detail.replace("field ObjectMeta.metadata.", "field ObjectMeta.")
        raise BodyError(detail, subject=_subject(body)) from None
    pruner = _Pruner()
    rest: JsonObject = {key: value for key, value in body.items() if key != "metadata"}
    value = _pruned(_read(rest), kind_schema, pruner, root=True)
    assert isinstance(value, dict)
    pruner.unknown.sort()
    for path, inner in whole_objects(value, kind_schema):
        pruner.unknown += decode_metadata(schema, inner, path, _subject(body))
    unknown = (*repeated_fields(body), *decoded.unknown, *pruner.unknown)
    lines = repeated_lines(body)
    if strict and (unknown or lines):
        raise BodyError(strict_error(unknown, lines), subject=_subject(body))
    stored: JsonObject = {key: decoded.value[key] for key in _META if key in decoded.value}
    filled = with_defaults(kind_schema, {**stored, **{k: v for k, v in value.items() if k not in stored}})
    return Decoded(filled, (*lines, *unknown))


def _read(value: JsonValue) -> JsonValue:
    """A copy with numbers as they come back from the store: whole ones are integers, up to 64 bits."""
    match value:
        case dict():
            return {key: _read(inner) for key, inner in value.items()}
        case list():
            return [_read(inner) for inner in value]
        case bool() | str() | None:
            return value
        case float() if value.is_integer() and abs(value) <= _MOST:
            return int(value)
        case int() if abs(value) > _MOST:
            return float_of(value)
        case _:
            return value


def float_of(number: int) -> float:
    """The whole number as a float, which is infinite beyond a float's range.

    >>> float_of(10**400), float_of(-(10**400)), float_of(3)
    (inf, -inf, 3.0)
    """
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _subject(body: JsonObject) -> str:
    """`Thing in version "v1" cannot be handled as a Thing`."""
    kind, version = body.get("kind"), str(body.get("apiVersion")).rpartition("/")[2]
    return f'{kind} in version "{version}" cannot be handled as a {kind}'


def prune(kind_schema: JsonObject, obj: JsonObject) -> Decoded:
    """The object without the fields that its schema does not know, and their names."""
    pruner = _Pruner()
    value = _pruned(copy_json(obj), kind_schema, pruner, root=True)
    assert isinstance(value, dict)
    return Decoded(value, tuple(pruner.unknown))


def _pruned(value: JsonValue, schema: JsonObject | None, pruner: _Pruner, *, root: bool = False) -> JsonValue:
    preserve = schema is not None and flag(schema, PRESERVE)
    if isinstance(value, dict):
        whole = root or (schema is not None and flag(schema, EMBEDDED))
        for key in list(value):
            if whole and key in _META:
                continue
            inner = schema_of(schema, key)
            if inner is None and not (preserve or _takes_more(schema)):
                pruner.drop(key)
                del value[key]
            elif inner is not None or _takes_more(schema):
                # What `additionalProperties: true` lets in keeps its scalars and loses what is nested in it.
                pruner.path.append(key)
                value[key] = _pruned(value[key], inner, pruner)
                pruner.path.pop()
    elif isinstance(value, list):
        held = None if schema is None else mapping(schema, "items")
        for index, element in enumerate(value):
            if preserve and not held:
                continue
            pruner.path.append(f"[{index}]")
            value[index] = _pruned(element, held, pruner)
            pruner.path.pop()
    return value


def _takes_more(schema: JsonObject | None) -> bool:
    return schema is not None and schema.get("additionalProperties") is not None


def with_defaults(kind_schema: JsonObject, obj: JsonObject) -> JsonObject:
    """The object with its schema's defaults; nulls that the schema does not allow give way to them."""
    filled = _defaulted(copy_json(obj), kind_schema)
    assert isinstance(filled, dict)
    return filled


def _defaulted(value: JsonValue, schema: JsonObject) -> JsonValue:
    if isinstance(value, dict):
        for key, described in mapping(schema, "properties").items():
            if not isinstance(described, dict):
                continue
            barred = key in value and value[key] is None and not flag(described, "nullable")
            if described.get("default") is not None and (key not in value or barred):
                value[key] = copy_json(described["default"])
        for key in list(value):
            inner = schema_of(schema, key)
            if inner is None:
                continue
            if value[key] is None and not flag(inner, "nullable") and inner.get("default") is None:
                del value[key]
            else:
                value[key] = _defaulted(_unless_null(value[key], inner), inner)
    elif isinstance(value, list):
        held = mapping(schema, "items")
        return [_defaulted(_unless_null(element, held), held) for element in value] if held else value
    return value


def _unless_null(value: JsonValue, schema: JsonObject) -> JsonValue:
    """The value, or the schema's default for a null that it does not allow."""
    if value is None and not flag(schema, "nullable") and schema.get("default") is not None:
        return copy_json(schema["default"])
    return value
