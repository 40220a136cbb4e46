"""CustomResourceDefinitions that lie in files: what the server would say of objects of their kinds.

Source: k8s.io/apiextensions-apiserver (registry/customresource strategy), v1.35.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from tonnage.decide.kubernetes.api.custom.structural import EMBEDDED, INT_OR_STRING, PRESERVE
from tonnage.model.json import JsonObject
from tonnage.model.json_access import flag, mapping, mappings, text
from tonnage.wire.schema import Field

DEFINITION: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
_METADATA: Final = "meta/v1.ObjectMeta"
_LEAVES: Final = {"string": "string", "boolean": "bool", "integer": "int64", "number": "raw"}
_DEEPEST: Final = 64
_OPEN: Final = Field("", "raw")
Fields: TypeAlias = dict[str, dict[str, Field]]


@dataclass(frozen=True, slots=True)
class CustomDefinition:
    """One served version of a custom kind. `schema` is its openAPIV3Schema."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    schema: JsonObject
    scale: JsonObject | None = None
    has_status: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """Group, version and kind."""
        return self.group, self.version, self.kind

    @property
    def type_name(self) -> str:
        """What a table of fields calls it."""
        return f"{self.group}/{self.version}.{self.kind}"


CustomDefinitions: TypeAlias = Mapping[tuple[str, str, str], CustomDefinition]


def definitions_in(objects: Iterable[JsonObject]) -> dict[tuple[str, str, str], CustomDefinition]:
    """The served versions of every definition among objects; whether one is valid is asked elsewhere."""
    return {definition.key: definition for obj in objects for definition in _versions(obj)}


def _versions(obj: JsonObject) -> Iterator[CustomDefinition]:
    if (text(obj, "apiVersion"), text(obj, "kind")) != DEFINITION:
        return
    spec = mapping(obj, "spec")
    group, kind, plural = text(spec, "group"), text(spec, "names", "kind"), text(spec, "names", "plural")
    for version in mappings(spec, "versions"):
        schema = mapping(version, "schema", "openAPIV3Schema")
        if not (flag(version, "served") and schema and group and kind):
            continue
        yield CustomDefinition(
            group,
            text(version, "name"),
            kind,
            plural,
            text(spec, "scope") == "Namespaced",
            schema,
            mapping(version, "subresources", "scale") or None,
            isinstance(mapping(version, "subresources").get("status"), dict),
        )


def fields_of(definition: CustomDefinition) -> Fields:
    """The fields of each object type of a kind, as the tables of built-in kinds have them."""
    types: Fields = {}
    own = _described(definition.type_name, definition.schema, types, 0)
    own["apiVersion"] = own["kind"] = Field("", "string")
    own["metadata"] = Field("metadata", "object", ref=_METADATA)
    return types


def _described(name: str, schema: JsonObject, types: Fields, depth: int) -> dict[str, Field]:
    fields = types[name] = {}
    for key, inner in mapping(schema, "properties").items():
        if isinstance(inner, dict):
            fields[key] = _field(f"{name}.{key}", inner, types, depth + 1)
    return fields


def _field(name: str, schema: JsonObject, types: Fields, depth: int) -> Field:
    """A field of the table; `raw` for what holds anything."""
    anything = any(flag(schema, mark) for mark in (PRESERVE, INT_OR_STRING, EMBEDDED))
    if anything or flag(schema, "nullable") or depth > _DEEPEST:
        return _OPEN
    match text(schema, "type"):
        case "object" if mapping(schema, "properties"):
            _described(name, schema, types, depth)
            return Field(name, "object", ref=name)
        case "object" if mapping(schema, "additionalProperties"):
            return _holder("map", _field(name, mapping(schema, "additionalProperties"), types, depth + 1))
        case "array" if mapping(schema, "items"):
            return _holder("array", _field(name, mapping(schema, "items"), types, depth + 1))
        case leaf:
            return Field(name, _LEAVES.get(leaf, "raw"))


def _holder(kind: str, element: Field) -> Field:
    """A list or a map; what is in a list of lists is not looked at."""
    nested = element.type in ("array", "map")
    return Field(element.name, kind, "raw" if nested else element.type, "" if nested else element.ref)
