"""The second OpenAPI: what the third says of all groups, in one document, as JSON and as protobuf.

Source: gnostic-models openapiv2/OpenAPIv2.proto, kube-openapi pkg/openapiconv (v1.35).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from tonnage.decide.kubernetes.api.encoding.protobuf_writer import (
    bytes_field,
    float_field,
    number_field,
    text_field,
)
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import items, mapping, mappings, text

MEDIA: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
OPENAPI_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""As clients ask for it: the answer's type may have no @."""
_TEXTS: Final = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_BOUNDS: Final = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_COUNTS: Final = {
    "exclusiveMaximum": 8,
    "exclusiveMinimum": 10,
    "maxLength": 11,
    "minLength": 12,
    "maxItems": 14,
    "minItems": 15,
    "uniqueItems": 16,
    "maxProperties": 17,
    "minProperties": 18,
}
_HOLDERS: Final = frozenset({"properties", "items", "additionalProperties", "allOf"})
_KIND: Final = "x-kubernetes-group-version-kind"
_KEYWORDS: Final = frozenset({*_TEXTS, *_BOUNDS, *_COUNTS, *_HOLDERS, "default", "enum", "required", "type"})


def second_openapi(documents: Iterable[JsonObject]) -> JsonObject:
    """One document of all the third's: paths and definitions."""
    paths: JsonObject = {}
    definitions: JsonObject = {}
    for document in documents:
        paths |= {
            path: _operations(mapping(operations)) for path, operations in mapping(document["paths"]).items()
        }
        schemas = mapping(mapping(document["components"])["schemas"])
        definitions |= {name: _schema(mapping(schema)) for name, schema in schemas.items()}
    title: JsonObject = {"title": "Kubernetes", "version": "1.35"}
    return {"swagger": "2.0", "info": title, "paths": paths, "definitions": definitions}


def encoded_second(document: JsonObject) -> bytes:
    """The definitions as protobuf and what may be said beside patches: clients ask for nothing else of it."""
    title = mapping(document["info"])
    encoded_title = text_field(1, str(title["title"])) + text_field(2, str(title["version"]))
    named = _named_schemas(mapping(document["definitions"]))
    return (
        text_field(1, "2.0")
        + bytes_field(2, encoded_title)
        + bytes_field(8, _paths(mapping(document["paths"])))
        + bytes_field(9, named)
    )


def _paths(paths: JsonObject) -> bytes:
    """The patches at every path, with the names of their parameters and their kind."""
    return b"".join(
        bytes_field(2, text_field(1, path) + bytes_field(2, bytes_field(8, _operation(mapping(patch)))))
        for path, operations in paths.items()
        if (patch := mapping(operations).get("patch"))
    )


def _operation(operation: JsonObject) -> bytes:
    names = [text(parameter, "name") for parameter in mappings(operation, "parameters")]
    queries = [bytes_field(3, text_field(2, "query") + text_field(4, name)) for name in names]
    listed = b"".join(bytes_field(8, bytes_field(1, bytes_field(2, query))) for query in queries)
    consumed = b"".join(text_field(7, str(media)) for media in items(operation, "consumes"))
    return consumed + listed + bytes_field(13, text_field(1, _KIND) + bytes_field(2, _any(operation[_KIND])))


def _operations(third: JsonObject) -> JsonObject:
    """What can be done at a path; the kinds of bodies are told by themselves."""
    second: JsonObject = {}
    for method, third_operation in third.items():
        operation = dict(mapping(third_operation))
        body = mapping(operation.pop("requestBody", None))
        consumed: JsonObject = {"consumes": list(mapping(body, "content"))} if body else {}
        second[method] = operation | consumed
    return second


def _schema(third: JsonObject) -> JsonObject:
    """A schema as the second OpenAPI has it: references stand alone, and there is one type or none.

    >>> _schema({"allOf": [{"$ref": "#/components/schemas/a.B"}], "default": {}, "description": "A b."})
    {'default': {}, 'description': 'A b.', '$ref': '#/definitions/a.B'}
    """
    second = {key: value for key, value in third.items() if key in _KEYWORDS or key.startswith("x-")}
    if "oneOf" in third and second.keys() <= {"description", "format"}:
        second["type"] = "string"
    _forget(second, third)
    match second.pop("allOf", None):
        case [{"$ref": str(reference)}]:
            second["$ref"] = reference.replace("#/components/schemas/", "#/definitions/")
    for key in ("items", "additionalProperties"):
        if isinstance(inner := second.get(key), dict):
            second[key] = _schema(inner)
    if "properties" in second:
        properties = mapping(second["properties"])
        second["properties"] = {name: _schema(mapping(inner)) for name, inner in properties.items()}
    return second


def _forget(second: JsonObject, third: JsonObject) -> None:
    """Leave out what clients would hold against values that may be null or anything."""
    anything = third.get("x-kubernetes-preserve-unknown-fields") is True
    nullable = third.get("nullable") is True
    if anything and _KIND in third:
        for key in second.keys() - {"type", _KIND}:
            del second[key]
    if anything or nullable:
        second.pop("items", None)
        second.pop("properties", None)
    bare = second.get("type") == "array" and "items" not in second
    if nullable or bare or (anything and second.get("type") == "object" and _KIND not in third):
        second.pop("type", None)


def _message(schema: JsonObject) -> bytes:
    return b"".join(_member(key, value) for key, value in schema.items())


def _member(key: str, value: JsonValue) -> bytes:
    """One member of a schema."""
    match key, value:
        case _, str() if key in _TEXTS:
            return text_field(_TEXTS[key], value)
        case _, int() | float() if key in _BOUNDS:
            return float_field(_BOUNDS[key], value)
        case _, int() if key in _COUNTS:
            return number_field(_COUNTS[key], value)
        case "default", _:
            return bytes_field(5, _any(value))
        case "required", list():
            return b"".join(text_field(19, str(name)) for name in value)
        case "enum", list():
            return b"".join(bytes_field(20, _any(choice)) for choice in value)
        case "additionalProperties", dict():
            return bytes_field(21, bytes_field(1, _message(value)))
        case "type", str():
            return bytes_field(22, text_field(1, value))
        case "items", dict():
            return bytes_field(23, bytes_field(1, _message(value)))
        case "properties", dict():
            return bytes_field(25, _named_schemas(value))
        case _ if key.startswith("x-"):
            return bytes_field(31, text_field(1, key) + bytes_field(2, _any(value)))
        case _:
            return b""


def _named_schemas(schemas: Mapping[str, JsonValue]) -> bytes:
    return b"".join(
        bytes_field(1, text_field(1, name) + bytes_field(2, _message(mapping(schema))))
        for name, schema in schemas.items()
    )


def _any(value: JsonValue) -> bytes:
    """Any value, which is YAML; JSON is YAML."""
    return text_field(2, json.dumps(value))
