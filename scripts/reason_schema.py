"""The JSON Schema of the facts of every reason, out of the fields of its class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Final, Union, get_args, get_origin, get_type_hints

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.reasons.facts import FactUnit, is_required, key_of, shown_fields
from tonnage.model.reasons.registry import reasons

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: Final[Mapping[object, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}


def facts_schemas() -> dict[str, JsonObject]:
    """By code: what may stand under `facts` of its reasons."""
    return {code: _schema_of(cls) for code, cls in sorted(reasons().items())}


def _schema_of(cls: type) -> JsonObject:
    hints = get_type_hints(cls, include_extras=True)
    properties: dict[str, JsonValue] = {}
    required: list[JsonValue] = []
    for field in shown_fields(cls):
        hint = hints[field.name]
        if is_required(field):
            required.append(key_of(field))
        properties[key_of(field)] = _schema(hint, given=not is_required(field))
    schema: JsonObject = {"type": "object", "additionalProperties": False, "properties": properties}
    return schema | {"required": required} if required else schema


def _schema(hint: object, *, given: bool = False) -> JsonObject:
    """The schema of a type; `given`: a fact that is left out while it is None, and so is never null."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        units = [each.words for each in parts[1:] if isinstance(each, FactUnit)]
        return _schema(parts[0], given=given) | {"description": "; ".join(units)}
    if origin in (Union, UnionType):
        kinds = [part for part in parts if not (given and part is NoneType)]
        return _schema(kinds[0]) if len(kinds) == 1 else {"anyOf": [_schema(kind) for kind in kinds]}
    if origin is tuple:
        return {"type": "array", "items": _schema(parts[0])}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(parts[1])}
    if isinstance(hint, type) and is_dataclass(hint):
        return _schema_of(hint)
    return {"type": _PLAIN[hint]}
