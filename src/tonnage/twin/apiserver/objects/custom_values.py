"""Values of a custom kind against its schema: unknown fields pruned, defaults filled in, the rest validated.

Source: k8s.io/apiextensions-apiserver (apiserver/schema/{pruning,defaulting,listtype}, apiserver/validation),
k8s.io/kube-openapi (validation/validate and its messages), v1.35.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.apiserver.access import flag, items, mapping, mappings, text, texts
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.body import BodyError, copy_json, repeated_fields
from tonnage.twin.apiserver.objects.decode import Decoded, decode
from tonnage.twin.apiserver.objects.embedded import decode_metadata, schema_of, whole_objects
from tonnage.twin.apiserver.objects.formats import has_format, is_recognized
from tonnage.twin.apiserver.objects.patch import same_json
from tonnage.twin.apiserver.objects.problems import (
    Errors,
    Fault,
    FieldError,
    duplicate,
    invalid,
    quoted,
    rendered,
    required,
    too_long,
    too_many,
    unsupported,
)
from tonnage.twin.apiserver.objects.structural import EMBEDDED, INT_OR_STRING, LIST_KEYS, LIST_TYPE, PRESERVE
from tonnage.twin.apiserver.objects.validation.metadata import embedded_metadata
from tonnage.wire.schema import Schema

_META: Final = ("apiVersion", "kind", "metadata")
_LOGIC: Final = frozenset({"allOf", "anyOf", "oneOf", "not"})


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
    value = _pruned(copy_json(rest), kind_schema, pruner, root=True)
    assert isinstance(value, dict)
    for path, inner in whole_objects(value, kind_schema):
        pruner.unknown += decode_metadata(schema, inner, path, _subject(body))
    unknown = (*repeated_fields(body), *decoded.unknown, *pruner.unknown)
    if strict and unknown:
        raise BodyError(
            f"strict decoding error: {', '.join(unknown)}",
            subject=_subject(body),
        )
    stored: JsonObject = {key: decoded.value[key] for key in _META if key in decoded.value}
    filled = with_defaults(kind_schema, {**stored, **{k: v for k, v in value.items() if k not in stored}})
    return Decoded(filled, unknown)


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


def validate_custom(kind_schema: JsonObject, obj: JsonObject) -> Errors:
    """Everything in the object that breaks its schema, its rules in CEL aside."""
    body = {key: value for key, value in obj.items() if key != "metadata"}
    return (*_value(body, kind_schema, ""), *_lists(body, kind_schema, ""))


def validate_value(value: JsonValue, schema: JsonObject) -> Errors:
    """Everything in a value that breaks its schema, without what is said of lists that are sets or maps."""
    return tuple(_value(value, schema, ""))


def _value(value: JsonValue, schema: JsonObject, path: str) -> Iterator[FieldError]:
    if value is None and flag(schema, "nullable"):
        return
    yield from _wrong_type(value, schema, path)
    yield from _enum(value, schema, path)
    match value:
        case None:
            return
        case str():
            yield from _string(value, schema, path)
        case bool():
            pass
        case int() | float():
            yield from _number(value, schema, path)
        case list():
            yield from _array(value, schema, path)
        case dict():
            yield from _object(value, schema, path)
    if not _LOGIC.isdisjoint(schema):
        yield from _logic(value, schema, path)


def json_type(value: JsonValue) -> str:
    """Name of a value's type in JSON Schema; a whole number is an integer."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"


def _wrong_type(value: JsonValue, schema: JsonObject, path: str) -> Iterator[FieldError]:
    actual, wanted = json_type(value), text(schema, "type")
    if flag(schema, INT_OR_STRING):
        fits = actual in ("integer", "string")
        wanted = "integer,string"
    else:
        fits = not wanted or actual == wanted or (wanted == "number" and actual == "integer")
    form = text(schema, "format")
    if not fits and is_recognized(form):
        fits = isinstance(value, list)  # upstream takes lists for what has a format
        if not isinstance(value, str):
            wanted, actual = form, {"integer": "int64", "number": "float64"}.get(actual, "")
    if not fits:
        detail = f"{_named(path)} must be of type {wanted}: {quoted(actual)}"
        yield FieldError(Fault.TYPE_INVALID, path or "<nil>", actual, detail)


def _named(path: str) -> str:
    """How messages name a place: the object itself has no name."""
    return f"{path} in body" if path else " in body"


def _enum(value: JsonValue, schema: JsonObject, path: str) -> Iterator[FieldError]:
    allowed = items(schema, "enum")
    if allowed and not any(same_json(value, one) for one in allowed):
        yield unsupported(path, value, [one if isinstance(one, str) else rendered(one) for one in allowed])


def _string(value: str, schema: JsonObject, path: str) -> Iterator[FieldError]:
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    pattern, form = text(schema, "pattern"), text(schema, "format")
    if isinstance(longest, int) and len(value) > longest:
        yield too_long(path, longest)
    elif isinstance(shortest, int) and len(value) < shortest:
        yield invalid(path, value, f"{_named(path)} should be at least {shortest} chars long")
    elif pattern and not re.search(pattern, value):
        yield invalid(path, value, f"{_named(path)} should match '{pattern}'")
    if not has_format(value, form):
        detail = f"{_named(path)} must be of type {form}: {quoted(value)}"
        yield FieldError(Fault.TYPE_INVALID, path, value, detail)


def _number(value: float, schema: JsonObject, path: str) -> Iterator[FieldError]:
    factor = schema.get("multipleOf")
    if isinstance(factor, (int, float)) and factor > 0 and value % factor:
        yield invalid(path, value, f"{_named(path)} should be a multiple of {factor}")
    for key, exclusive, words in (
        ("maximum", "exclusiveMaximum", "less than"),
        ("minimum", "exclusiveMinimum", "greater than"),
    ):
        bound, open_end = schema.get(key), flag(schema, exclusive)
        if not isinstance(bound, (int, float)) or isinstance(bound, bool):
            continue
        if value > bound if key == "maximum" else value < bound:
            yield invalid(
                path, value, f"{_named(path)} should be {words} {'' if open_end else 'or equal to '}{bound}"
            )
        elif open_end and value == bound:
            yield invalid(path, value, f"{_named(path)} should be {words} {bound}")


def _array(value: list[JsonValue], schema: JsonObject, path: str) -> Iterator[FieldError]:
    most, least = schema.get("maxItems"), schema.get("minItems")
    if isinstance(most, int) and len(value) > most:
        yield too_many(path, len(value), most)
    if isinstance(least, int) and len(value) < least:
        yield invalid(path, len(value), f"{_named(path)} should have at least {least} items")
    held = schema.get("items")
    if isinstance(held, dict):
        for index, element in enumerate(value):
            yield from _value(element, held, f"{path}[{index}]")


def _object(value: JsonObject, schema: JsonObject, path: str) -> Iterator[FieldError]:
    if flag(schema, EMBEDDED):
        yield from _embedded(value, path)
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if isinstance(most, int) and len(value) > most:
        yield too_many(path, len(value), most)
    if isinstance(least, int) and len(value) < least:
        yield invalid(path, len(value), f"{_named(path)} should have at least {least} properties")
    for key in texts(schema, "required"):
        if key not in value and not (not path and key == "metadata"):
            yield required(f"{path}.{key}" if path else key)
    for key, inner in value.items():
        described = schema_of(schema, key)
        if described is not None:
            yield from _value(inner, described, f"{path}.{key}" if path else key)
        elif schema.get("additionalProperties") is False:
            yield invalid(path, key, f"{path}.{key} in body is a forbidden property")


def _embedded(value: JsonObject, path: str) -> Iterator[FieldError]:
    """A whole object within another: its version, its kind, its labels."""
    version, kind = text(value, "apiVersion"), text(value, "kind")
    if not version:
        yield required(f"{path}.apiVersion")
    elif version.count("/") > 1:
        yield invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    if not kind:
        yield required(f"{path}.kind")
    elif wrong := names.dns_label_1035(kind.lower()):
        words = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        yield invalid(f"{path}.kind", kind, words)
    if "metadata" in value:
        for error in embedded_metadata(mapping(value, "metadata")):
            yield replace(error, field=f"{path}.{error.field}")


def _logic(value: JsonValue, schema: JsonObject, path: str) -> Iterator[FieldError]:
    """allOf, anyOf, oneOf, not."""

    def faults(inner: JsonObject) -> list[FieldError]:
        return list(_value(value, inner, path))

    name = quoted(path)
    together = [fault for inner in mappings(schema, "allOf") for fault in faults(inner)]
    if together:
        yield from together
        yield invalid("<nil>", "", f"{name} must validate all the schemas (allOf)")
    choices = mappings(schema, "anyOf")
    if choices and all(map(faults, choices)):
        yield invalid("<nil>", "", f"{name} must validate at least one schema (anyOf)")
        yield from faults(choices[0])
    choices = mappings(schema, "oneOf")
    count = sum(not faults(choice) for choice in choices)
    if choices and count != 1:
        found = "Found none valid" if count == 0 else f"Found {count} valid alternatives"
        yield invalid("<nil>", "", f"{name} must validate one and only one schema (oneOf). {found}")
        yield from faults(choices[0]) if count == 0 else ()
    if schema.get("not") is not None and not faults(mapping(schema, "not")):
        yield invalid("<nil>", "", f"{name} must not validate the schema (not)")


def _lists(value: JsonValue, schema: JsonObject, path: str) -> Iterator[FieldError]:
    """Elements that stand twice in a list that is a set, or a map by its keys."""
    if isinstance(value, list):
        kind, keys = text(schema, LIST_TYPE), texts(schema, LIST_KEYS)
        if kind in ("set", "map"):
            yield from _doubles(value, keys if kind == "map" else None, mapping(schema, "items"), path)
        for index, element in enumerate(value):
            yield from _lists(element, mapping(schema, "items"), f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, inner in value.items():
            described = schema_of(schema, key)
            if described is not None:
                yield from _lists(inner, described, f"{path}.{key}" if path else key)


def _doubles(
    value: list[JsonValue], keys: list[str] | None, held: JsonObject, path: str
) -> Iterator[FieldError]:
    seen: list[JsonValue] = []
    told: list[JsonValue] = []
    for index, element in enumerate(value):
        identity = element
        if keys is not None:
            if not isinstance(element, dict):
                yield invalid(f"{path}[{index}]", element, "must be an object for an array of list-type map")
                continue
            identity = {key: element[key] for key in keys if key in element}
        again = any(same_json(identity, one) for one in seen)
        if again and not any(same_json(identity, one) for one in told):
            yield duplicate(f"{path}[{index}]", identity)
            told.append(identity)
        seen.append(identity)
