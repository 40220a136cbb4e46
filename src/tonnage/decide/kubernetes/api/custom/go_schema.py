"""A custom kind's schema as refusals show it: every field by its name in Go, set or not.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions (types_jsonschema.go), v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject, JsonValue

_FIELDS: Final[tuple[tuple[str, str, JsonValue], ...]] = (
    ("ID", "id", ""), ("Schema", "$schema", ""), ("Ref", "$ref", None), ("Description", "description", ""),
    ("Type", "type", ""), ("Nullable", "nullable", False), ("Format", "format", ""), ("Title", "title", ""),
    ("Default", "default", None), ("Maximum", "maximum", None),
    ("ExclusiveMaximum", "exclusiveMaximum", False), ("Minimum", "minimum", None),
    ("ExclusiveMinimum", "exclusiveMinimum", False), ("MaxLength", "maxLength", None),
    ("MinLength", "minLength", None), ("Pattern", "pattern", ""), ("MaxItems", "maxItems", None),
    ("MinItems", "minItems", None), ("UniqueItems", "uniqueItems", False),
    ("MultipleOf", "multipleOf", None), ("Enum", "enum", None), ("MaxProperties", "maxProperties", None),
    ("MinProperties", "minProperties", None), ("Required", "required", None), ("Items", "items", None),
    ("AllOf", "allOf", None), ("OneOf", "oneOf", None), ("AnyOf", "anyOf", None), ("Not", "not", None),
    ("Properties", "properties", None), ("AdditionalProperties", "additionalProperties", None),
    ("PatternProperties", "patternProperties", None), ("Dependencies", "dependencies", None),
    ("AdditionalItems", "additionalItems", None), ("Definitions", "definitions", None),
    ("ExternalDocs", "externalDocs", None), ("Example", "example", None),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", None),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", False),
    ("XIntOrString", "x-kubernetes-int-or-string", False),
    ("XListMapKeys", "x-kubernetes-list-map-keys", None), ("XListType", "x-kubernetes-list-type", None),
    ("XMapType", "x-kubernetes-map-type", None), ("XValidations", "x-kubernetes-validations", None),
)  # fmt: skip
_RULE: Final[tuple[tuple[str, str, JsonValue], ...]] = (
    ("Rule", "rule", ""), ("Message", "message", ""), ("MessageExpression", "messageExpression", ""),
    ("Reason", "reason", None), ("FieldPath", "fieldPath", ""), ("OptionalOldSelf", "optionalOldSelf", None),
)  # fmt: skip


def rule_in_go(rule: JsonObject) -> JsonObject:
    """A rule in CEL."""
    return {written: rule[key] if rule.get(key) is not None else unset for written, key, unset in _RULE}


def schema_in_go(schema: JsonObject) -> JsonObject:
    """A schema and all within it."""
    return {
        written: unset if schema.get(key) is None else _part(key, schema[key])
        for written, key, unset in _FIELDS
    }


def _part(key: str, value: JsonValue) -> JsonValue:
    match key, value:
        case ("items", dict()):
            return {"Schema": schema_in_go(value), "JSONSchemas": None}
        case (("additionalProperties" | "additionalItems"), dict()):
            return {"Allows": True, "Schema": schema_in_go(value)}
        case (("additionalProperties" | "additionalItems"), bool()):
            return {"Allows": value, "Schema": None}
        case ("not", dict()):
            return schema_in_go(value)
        case (("allOf" | "oneOf" | "anyOf"), list()):
            return [schema_in_go(inner) for inner in value if isinstance(inner, dict)]
        case ("x-kubernetes-validations", list()):
            return [rule_in_go(inner) for inner in value if isinstance(inner, dict)]
        case (("properties" | "patternProperties" | "definitions"), dict()):
            return {
                name: schema_in_go(inner) for name, inner in sorted(value.items()) if isinstance(inner, dict)
            }
        case _:
            return value


_SCALE: Final = ("SpecReplicasPath", "StatusReplicasPath", "LabelSelectorPath")
_COLUMN: Final[tuple[tuple[str, JsonValue], ...]] = (("Format", ""), ("Description", ""), ("Priority", 0))


def part_in_go(key: str, value: JsonValue) -> JsonValue:
    """A part of a version of a custom kind, by its name in JSON."""
    match key, value:
        case ("schema", dict()):
            schema = value.get("openAPIV3Schema")
            return {"OpenAPIV3Schema": schema_in_go(schema) if isinstance(schema, dict) else None}
        case ("subresources", dict()):
            scale = value.get("scale")
            shown: JsonValue = None
            if isinstance(scale, dict):
                shown = {name: scale.get(name[0].lower() + name[1:]) for name in _SCALE}
            return {"Status": value.get("status"), "Scale": shown}
        case ("additionalPrinterColumns", list()):
            return [_column(entry) for entry in value if isinstance(entry, dict)]
        case ("selectableFields", list()):
            return [{"JSONPath": entry.get("jsonPath")} for entry in value if isinstance(entry, dict)]
        case _:
            return value


def _column(column: JsonObject) -> JsonObject:
    shown: JsonObject = {"Name": column.get("name"), "Type": column.get("type")}
    for name, unset in _COLUMN:
        shown[name] = column.get(name.lower(), unset)
    return {**shown, "JSONPath": column.get("jsonPath")}
