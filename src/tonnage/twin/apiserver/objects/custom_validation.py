"""What breaks the schema of a custom kind, its rules in CEL aside.

Source: k8s.io/apiextensions-apiserver (apiserver/schema/listtype, apiserver/validation), k8s.io/kube-openapi
(validation/validate and its messages), v1.35.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.apiserver.access import flag, items, mapping, mappings, text, texts
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.embedded import schema_of
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
from tonnage.twin.apiserver.objects.structural import EMBEDDED, INT_OR_STRING, LIST_KEYS, LIST_TYPE
from tonnage.twin.apiserver.objects.validation.metadata import embedded_metadata

_LOGIC: Final = frozenset({"allOf", "anyOf", "oneOf", "not"})


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
    for key, inner in value.items():
        described = schema_of(schema, key)
        if described is not None:
            yield from _value(inner, described, f"{path}.{key}" if path else key)
        elif schema.get("additionalProperties") is False:
            yield invalid(path, key, f"{path}.{key} in body is a forbidden property")
    for key in texts(schema, "required"):
        if key not in value and not (not path and key == "metadata"):
            yield required(f"{path}.{key}" if path else key)


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
