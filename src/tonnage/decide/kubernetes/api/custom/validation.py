"""What breaks the schema of a custom kind, its rules in CEL aside.

Source: k8s.io/apiextensions-apiserver (apiserver/schema/listtype, apiserver/validation), k8s.io/kube-openapi
(validation/validate and its messages), v1.35.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeGuard

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.custom.embedded import schema_of, whole_objects
from tonnage.decide.kubernetes.api.custom.formats import has_format, is_recognized
from tonnage.decide.kubernetes.api.custom.structural import INT_OR_STRING, LIST_KEYS, LIST_TYPE
from tonnage.decide.kubernetes.api.go_text import go_value
from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.decide.kubernetes.api.problems import (
    Errors,
    FieldError,
    FieldErrorType,
    duplicate,
    invalid,
    quoted,
    rendered,
    required,
    too_long,
    too_many,
    unsupported,
)
from tonnage.decide.kubernetes.api.validation.metadata import embedded_metadata
from tonnage.decide.kubernetes.cel.function_library.go_regexps import compiled
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import flag, items, mapping, mappings, text, texts

_LOGIC: Final = frozenset({"allOf", "anyOf", "oneOf", "not"})
_MOST_WHOLE: Final = 2**53 - 1
_NEARLY: Final = 1e-9


def validate_custom(kind_schema: JsonObject, obj: JsonObject) -> Errors:
    """Everything in the object that breaks its schema, its rules in CEL aside."""
    body = {key: value for key, value in obj.items() if key != "metadata"}
    return (*validate_value(body, kind_schema), *doubled_elements(body, kind_schema))


def validate_value(value: JsonValue, schema: JsonObject) -> Errors:
    """Everything in a value that breaks its schema, without what is said of lists that are sets or maps."""
    return (*shape_problems(value, schema), *embedded_problems(value, schema))


def shape_problems(value: JsonValue, schema: JsonObject) -> Errors:
    """Everything in a value that its schema itself does not allow."""
    return tuple(_value(value, schema, ""))


def embedded_problems(value: JsonValue, schema: JsonObject) -> Errors:
    """What is wrong with whole objects within a value."""
    return tuple(error for path, inner in whole_objects(value, schema) for error in _embedded(inner, path))


def doubled_elements(value: JsonValue, schema: JsonObject) -> Errors:
    """Elements that stand twice in lists that are sets, or maps by their keys."""
    return tuple(_lists(value, schema, ""))


def _value(value: JsonValue, schema: JsonObject, path: str) -> Iterator[FieldError]:
    if value is None and flag(schema, "nullable"):
        return
    yield from _wrong_type(value, schema, path)
    if value is not None and not _LOGIC.isdisjoint(schema):
        yield from _logic(value, schema, path)
    match value:
        case str():
            yield from _string(value, schema, path)
        case bool() | None:
            pass
        case int() | float():
            yield from _number(value, schema, path)
        case list():
            yield from _array(value, schema, path)
    yield from _enum(value, schema, path)
    if isinstance(value, dict):
        yield from _object(value, schema, path)


def json_type(value: JsonValue) -> str:
    """Name of a value's type in JSON Schema; a whole number is an integer, unless a float cannot tell."""
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
            return "integer" if _is_whole(value) else "number"


def _is_whole(value: float) -> bool:
    """Whether a float counts as an integer: up to the ones that it can tell apart."""
    near = abs(value - round(value)) / (2 * abs(value)) < _NEARLY if value else True
    return near and abs(value) <= _MOST_WHOLE


def _wrong_type(value: JsonValue, schema: JsonObject, path: str) -> Iterator[FieldError]:
    actual, expected = json_type(value), text(schema, "type")
    if flag(schema, INT_OR_STRING):
        fits = actual in ("integer", "string")
        expected = "integer,string"
    else:
        fits = not expected or actual == expected or (expected == "number" and actual == "integer")
    form = text(schema, "format")
    if not fits and is_recognized(form):
        fits = isinstance(value, list)  # upstream takes lists for what has a format
        if not isinstance(value, str):
            expected, actual = form, {"integer": "int64", "number": "float64"}.get(actual, "")
    if not fits:
        detail = f"{_place_in_body(path)} must be of type {expected}: {quoted(actual)}"
        yield FieldError(FieldErrorType.TYPE_INVALID, path or "<nil>", actual, detail)


def _place_in_body(path: str) -> str:
    """How messages name a place: the object itself has no name."""
    return f"{path} in body" if path else " in body"


def _enum(value: JsonValue, schema: JsonObject, path: str) -> Iterator[FieldError]:
    allowed = items(schema, "enum")
    if allowed and not any(same_json(value, choice) for choice in allowed):
        yield unsupported(
            path, value, [choice if isinstance(choice, str) else rendered(choice) for choice in allowed]
        )


def _string(value: str, schema: JsonObject, path: str) -> Iterator[FieldError]:
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    pattern, form = text(schema, "pattern"), text(schema, "format")
    if isinstance(longest, int) and len(value) > longest:
        yield too_long(path, longest)
    elif isinstance(shortest, int) and len(value) < shortest:
        yield invalid(path, value, f"{_place_in_body(path)} should be at least {shortest} chars long")
    elif pattern and not compiled(pattern).search(value):
        yield invalid(path, value, f"{_place_in_body(path)} should match '{pattern}'")
    if not has_format(value, form):
        detail = f"{_place_in_body(path)} must be of type {form}: {quoted(value)}"
        yield FieldError(FieldErrorType.TYPE_INVALID, path, value, detail)


def _number(value: float, schema: JsonObject, path: str) -> Iterator[FieldError]:
    """Bounds of a number; those of an integer are integers, too, whatever the schema says."""
    sort = int if isinstance(value, int) else float
    factor = schema.get("multipleOf")
    if _is_number(factor):
        step = sort(factor)
        if step <= 0:
            yield invalid(path, step, f"factor MultipleOf declared for {path} must be positive: {step:g}")
        elif value % step if sort is int else not _is_whole(1 / step * value if step < 1 else value / step):
            yield invalid(path, value, f"{_place_in_body(path)} should be a multiple of {go_value(step)}")
    for key, exclusive, words in (
        ("minimum", "exclusiveMinimum", "greater than"),
        ("maximum", "exclusiveMaximum", "less than"),
    ):
        bound, beyond = schema.get(key), flag(schema, exclusive)
        if not _is_number(bound):
            continue
        end = sort(bound)
        outside = value < end if key == "minimum" else value > end
        if outside or (beyond and value == end):
            limit = f"{'' if beyond else 'or equal to '}{go_value(end)}"
            yield invalid(path, value, f"{_place_in_body(path)} should be {words} {limit}")


def _is_number(value: JsonValue) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _array(value: list[JsonValue], schema: JsonObject, path: str) -> Iterator[FieldError]:
    most, least = schema.get("maxItems"), schema.get("minItems")
    if isinstance(most, int) and len(value) > most:
        yield too_many(path, len(value), most)
    if isinstance(least, int) and len(value) < least:
        yield invalid(path, len(value), f"{_place_in_body(path)} should have at least {least} items")
    held = schema.get("items")
    if isinstance(held, dict):
        for index, element in enumerate(value):
            yield from _value(element, held, f"{path}[{index}]")


def _object(value: JsonObject, schema: JsonObject, path: str) -> Iterator[FieldError]:
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if isinstance(most, int) and len(value) > most:
        yield too_many(path, len(value), most)
    if isinstance(least, int) and len(value) < least:
        yield invalid(path, len(value), f"{_place_in_body(path)} should have at least {least} properties")
    for key, inner in value.items():
        described = schema_of(schema, key)
        if described is not None:
            declared = key in mapping(schema, "properties")
            yield from _value(inner, described, key if declared and not path else f"{path}.{key}")
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
    """anyOf, oneOf, allOf, not."""

    def faults(inner: JsonObject) -> list[FieldError]:
        return list(_value(value, inner, path))

    name = quoted(path)
    choices = mappings(schema, "anyOf")
    if choices and all(map(faults, choices)):
        yield invalid("<nil>", "", f"{name} must validate at least one schema (anyOf)")
        yield from faults(choices[0])
    choices = mappings(schema, "oneOf")
    count = sum(not faults(choice) for choice in choices)
    if choices and count != 1:
        valid_words = "Found none valid" if count == 0 else f"Found {count} valid alternatives"
        yield invalid("<nil>", "", f"{name} must validate one and only one schema (oneOf). {valid_words}")
        yield from faults(choices[0]) if count == 0 else ()
    groups = [faults(inner) for inner in mappings(schema, "allOf")]
    if any(groups):
        yield from (fault for group in groups for fault in group)
        none = ". None validated" if all(groups) else ""
        yield invalid("<nil>", "", f"{name} must validate all the schemas (allOf){none}")
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
    identities: list[JsonValue] = []
    doubled: list[JsonValue] = []
    for index, element in enumerate(value):
        identity = element
        if keys is not None:
            if element is None:
                continue
            if not isinstance(element, dict):
                yield invalid(f"{path}[{index}]", element, "must be an object for an array of list-type map")
                continue
            identity = {key: element[key] for key in keys if key in element}
        again = any(same_json(identity, earlier) for earlier in identities)
        if again and not any(same_json(identity, earlier) for earlier in doubled):
            yield duplicate(f"{path}[{index}]", identity)
            doubled.append(identity)
        identities.append(identity)
