"""The fields that the definition of one of NVIDIA's kinds has below `spec`, and what each holds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, TypeAlias

from tonnage.model.catalog.nvidia_kinds import nvidia_definition
from tonnage.model.json import JsonObject
from tonnage.model.json_access import flag, mapping, mappings, text, texts

Field: TypeAlias = "str | Mapping[str, Field] | tuple[Field]"
"""What a field holds: fields below it, a list of what the tuple has, or a word for what it is.

The words: bool, text, whole, any, or those that it takes between bars.
"""
Fields: TypeAlias = Mapping[str, Field]
ANY_KEY: Final = "*"
"""Stands for every key of a mapping whose keys people choose."""
_WORDS: Final = {"boolean": "bool", "integer": "whole", "string": "text"}


@cache
def definition_fields(plural: str) -> Fields:
    """Of the definition's first version; read once.

    >>> definition_fields("clusterpolicies")["dcgmExporter"]["serviceMonitor"]["enabled"]
    'bool'
    """
    [version, *_] = mappings(mapping(nvidia_definition(plural), "spec"), "versions")
    schema = mapping(version, "schema", "openAPIV3Schema", "properties", "spec")
    fields = _field(schema)
    assert isinstance(fields, Mapping)
    return fields


def _field(schema: JsonObject) -> Field:
    kind = text(schema, "type")
    if flag(schema, "x-kubernetes-preserve-unknown-fields") or flag(schema, "x-kubernetes-int-or-string"):
        return "any"
    if kind == "array":
        return (_field(mapping(schema, "items")),)
    if "properties" in schema:
        return {name: _field(mapping(schema, "properties", name)) for name in mapping(schema, "properties")}
    if mapping(schema, "additionalProperties"):
        return {ANY_KEY: _field(mapping(schema, "additionalProperties"))}
    if "enum" in schema:
        return f"|{'|'.join(texts(schema, 'enum'))}|"
    return _WORDS.get(kind, "any")
