"""Whole objects within custom ones (`x-kubernetes-embedded-resource`), whose metadata is that of any object.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/objectmeta (coerce.go), v1.35.
"""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.decide.kubernetes.api.custom.structural import EMBEDDED
from tonnage.decide.kubernetes.api.encoding.body import BodyError
from tonnage.decide.kubernetes.api.encoding.decode import decode
from tonnage.decide.kubernetes.api.problems import invalid
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import flag, mapping
from tonnage.wire.schema import Schema


def schema_of(schema: JsonObject | None, key: str) -> JsonObject | None:
    """Schema of a property, declared or additional."""
    if schema is None:
        return None
    declared = mapping(schema, "properties").get(key)
    if isinstance(declared, dict):
        return declared
    extra = schema.get("additionalProperties")
    return extra if isinstance(extra, dict) else None


def whole_objects(value: JsonValue, schema: JsonObject, path: str = "") -> Iterator[tuple[str, JsonObject]]:
    """Objects of any kind within one: where they stand, and themselves."""
    if isinstance(value, list):
        for index, element in enumerate(value):
            yield from whole_objects(element, mapping(schema, "items"), f"{path}[{index}]")
    elif isinstance(value, dict):
        if flag(schema, EMBEDDED):
            yield path, value
        for key, inner in value.items():
            described = schema_of(schema, key)
            if described is not None:
                yield from whole_objects(inner, described, f"{path}.{key}" if path else key)


def decode_metadata(schema: Schema, obj: JsonObject, path: str, subject: str) -> list[str]:
    """Read the metadata of an object within another, in place; what it names that there is not.

    Raises:
        BodyError: something has a wrong type.
    """
    for key in ("apiVersion", "kind"):
        if not isinstance(obj.get(key, ""), str):
            raise BodyError(str(invalid(f"{path}.{key}", obj[key], "must be a string")), subject=subject)
    if "metadata" not in obj:
        return []
    try:
        decoded = decode(schema, "meta/v1.PartialObjectMetadata", {"metadata": obj["metadata"]})
    except BodyError as error:
        detail = error.detail.replace("field ObjectMeta.metadata.", "field ObjectMeta.")
        detail = detail.replace("Go struct field PartialObjectMetadata.metadata of", "Go value of")
        metadata = obj["metadata"]
        ordered: JsonValue = dict(sorted(metadata.items())) if isinstance(metadata, dict) else metadata
        shown = invalid(f"{path}.metadata", ordered, detail)
        raise BodyError(str(shown), subject=subject) from None
    obj["metadata"] = mapping(decoded.value, "metadata")
    return [complaint.replace('"metadata.', f'"{path}.metadata.', 1) for complaint in decoded.unknown]
