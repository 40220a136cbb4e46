"""Whether the schema of a custom kind is structural: every level says its type, logic only restricts values.

What else a definition's schema must keep to is in `validation.custom.schemas`.

Source: k8s.io/apiextensions-apiserver (apiserver/schema), v1.35.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.api.problems import FieldError, forbidden, invalid, required
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import flag, mapping, mappings, text

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
MAP_TYPE: Final = "x-kubernetes-map-type"
RULES: Final = "x-kubernetes-validations"
DEEPEST: Final = 100
_ANY_OF: Final[JsonValue] = [{"type": "integer"}, {"type": "string"}]
_TYPE_WORDS: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_NESTED: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (PRESERVE, "must be false to be structural"),
    (EMBEDDED, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"),
    (LIST_KEYS, "must be empty to be structural"),
    (LIST_TYPE, "must be undefined to be structural"),
    (MAP_TYPE, "must be undefined to be structural"),
    (RULES, "must be empty to be structural"),
)
_SET_WHEN_EMPTY: Final = ("additionalProperties", "default")
FieldErrors = Iterator[FieldError]


def schema_problems(schema: JsonObject, path: str) -> tuple[FieldError, ...]:
    """Everything that keeps an `openAPIV3Schema` from being structural, sorted as the server sorts it."""
    return tuple(sorted((*_level(schema, "root", path, 0), *_complete(schema, path)), key=str))


def _level(schema: JsonObject, level: str, path: str, depth: int) -> FieldErrors:
    if depth > DEEPEST:
        yield forbidden(path, f"must not be nested deeper than {DEEPEST} levels")
        return
    yield from _kind(schema, level, path)
    if schema.get("items") not in (None, []):
        yield from _level(mapping(schema, "items"), "item", f"{path}.items", depth + 1)
    elif text(schema, "type") == "array":
        yield required(f"{path}.items", "must be specified")
    for name, inner in mapping(schema, "properties").items():
        if isinstance(inner, dict):
            yield from _level(inner, "field", f"{path}.properties[{name}]", depth + 1)
    extra = schema.get("additionalProperties")
    if extra is not None:
        if level == "root":
            yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(extra, dict):
            yield from _level(extra, "field", f"{path}.additionalProperties", depth + 1)
    yield from _logic(schema, path, depth)
    if level == "root" or flag(schema, EMBEDDED):
        yield from _identity(schema, level, path)


def _kind(schema: JsonObject, level: str, path: str) -> FieldErrors:
    """The `type` and the extensions that bear on it."""
    kind, embedded = text(schema, "type"), flag(schema, EMBEDDED)
    if embedded and kind != "object":
        words = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", kind, words) if kind else required(f"{path}.type", words)
    elif not kind and not flag(schema, INT_OR_STRING) and not flag(schema, PRESERVE):
        yield required(f"{path}.type", _TYPE_WORDS[level])
    if level == "root" and kind and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    for key in (PRESERVE, EMBEDDED):
        if flag(schema, INT_OR_STRING) and flag(schema, key):
            yield invalid(f"{path}.{key}", True, "must be false if x-kubernetes-int-or-string is true")
    if embedded and not flag(schema, PRESERVE) and not mapping(schema, "properties"):
        words = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        yield required(f"{path}.properties", words)
    if embedded and schema.get("additionalProperties") is not None:
        words = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(f"{path}.additionalProperties", words)


def _identity(schema: JsonObject, level: str, path: str) -> FieldErrors:
    """`kind`, `apiVersion` and `metadata` of a whole object."""
    properties = mapping(schema, "properties")
    for key in ("kind", "apiVersion"):
        if key in properties and text(properties, key, "type") != "string":
            yield invalid(f"{path}.properties[{key}].type", text(properties, key, "type"), "must be string")
    if "metadata" not in properties:
        return
    metadata, where = mapping(properties, "metadata"), f"{path}.properties[metadata]"
    if text(metadata, "type") != "object":
        yield invalid(f"{where}.type", text(metadata, "type"), "must be object")
    keys = {key for key, value in metadata.items() if value and key not in ("type", "default")}
    named = set(mapping(metadata, "properties")) <= {"name", "generateName"}
    if level == "root" and not (keys <= {"properties"} and named):
        words = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield forbidden(where, words)


def is_int_or_string_pattern(schema: JsonObject) -> bool:
    """Whether the logic only repeats that this is a number or a string, which is allowed to name types."""
    if not flag(schema, INT_OR_STRING):
        return False
    first = next(iter(mappings(schema, "allOf")), {})
    return schema.get("anyOf") == _ANY_OF or first.get("anyOf") == _ANY_OF


def _logic(schema: JsonObject, path: str, depth: int) -> FieldErrors:
    pattern = text(schema, "pattern")
    if pattern:
        from tonnage.decide.kubernetes.cel.function_library.go_regexps import regexp_problem

        if wrong := regexp_problem(pattern):
            words = f"must be a valid regular expression, but isn't: {wrong}"
            yield invalid(f"{path}.pattern", pattern, words)
    skip = is_int_or_string_pattern(schema)
    for key in ("allOf", "anyOf", "oneOf"):
        if key == "anyOf" and skip:
            continue
        for index, inner in enumerate(mappings(schema, key)):
            if key == "allOf" and index == 0 and skip:
                continue
            yield from _nested(inner, f"{path}.{key}[{index}]", depth + 1)
    if schema.get("not") is not None:
        yield from _nested(mapping(schema, "not"), f"{path}.not", depth + 1)


def _nested(schema: JsonObject, path: str, depth: int) -> FieldErrors:
    """A schema within logic: it may restrict values, not shape them."""
    if depth > DEEPEST:
        yield forbidden(path, f"must not be nested deeper than {DEEPEST} levels")
        return
    for key, words in _NESTED:
        if schema.get(key) or (key in _SET_WHEN_EMPTY and schema.get(key) is not None):
            yield forbidden(f"{path}.{key}", words)
    if "metadata" in mapping(schema, "properties"):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")
    for name, inner in mapping(schema, "properties").items():
        if isinstance(inner, dict):
            yield from _nested(inner, f"{path}.properties[{name}]", depth + 1)
    if schema.get("items") is not None:
        yield from _nested(mapping(schema, "items"), f"{path}.items", depth + 1)
    yield from _logic(schema, path, depth)


def _complete(schema: JsonObject, path: str) -> FieldErrors:
    """Fields that the root's logic speaks of must be declared outside of it."""
    for where, inner in _logical(schema):
        yield from _declared(schema, inner, f"{path}.{where}", path)


def _logical(schema: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """The schemas that a schema's logic is made of, and where they stand."""
    for key in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(mappings(schema, key)):
            yield f"{key}[{index}]", inner
    if schema.get("not") is not None:
        yield "not", mapping(schema, "not")


def _declared(outer: JsonObject, inner: JsonObject, path: str, outer_path: str) -> FieldErrors:
    for where, deeper in _logical(inner):
        yield from _declared(outer, deeper, f"{path}.{where}", outer_path)
    for name, field in mapping(inner, "properties").items():
        where = f"{outer_path}.properties[{name}]"
        if name not in mapping(outer, "properties"):
            yield required(where, f"because it is defined in {path}.properties[{name}]")
        elif isinstance(field, dict):
            declared = mapping(outer, "properties", name)
            yield from _declared(declared, field, f"{path}.properties[{name}]", where)
    if inner.get("items") is not None:
        if outer.get("items") is None:
            yield required(f"{outer_path}.items", f"because it is defined in {path}.items")
        else:
            held = mapping(outer, "items")
            yield from _declared(held, mapping(inner, "items"), f"{path}.items", f"{outer_path}.items")
