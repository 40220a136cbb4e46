"""What the schema of a custom kind must keep to beside being structural: types, lists, defaults, rules.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation (validation.go), v1.35.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from tonnage.decide.kubernetes.api.custom.go_schema import schema_in_go
from tonnage.decide.kubernetes.api.custom.kinds import kind_of
from tonnage.decide.kubernetes.api.custom.rules import rule_problems
from tonnage.decide.kubernetes.api.custom.structural import (
    DEEPEST,
    EMBEDDED,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE,
    RULES,
    TYPES,
    schema_problems,
)
from tonnage.decide.kubernetes.api.custom.validation import validate_value
from tonnage.decide.kubernetes.api.custom.values import prune
from tonnage.decide.kubernetes.api.problems import (
    FieldError,
    forbidden,
    internal,
    invalid,
    required,
    unsupported,
)
from tonnage.decide.kubernetes.api.validation.custom.schema_rules import (
    RuleCosts,
    RulePlace,
    compiled_rules,
    most_inside,
    most_of_size,
    rule_text,
    rules_too_dear,
)
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors
from tonnage.decide.kubernetes.cel.cost.ranges import MOST
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, flag, items, mapping, mappings, text, texts

_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_EVEN_EMPTY: Final = frozenset({"additionalItems", "dependencies", "$ref"})
_LIST_TYPES: Final = ("atomic", "set", "map")
_MAP_TYPES: Final = ("atomic", "granular")
_UNTYPED: Final = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: unable to "
    "convert structural schema to CEL declarations"
)
_META: Final = ("metadata", "kind", "apiVersion")
_ROOT_WITH_STATUS: Final = {
    "description": "Description", "type": "Type", "format": "Format", "title": "Title", "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum", "minimum": "Minimum", "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength", "minLength": "MinLength", "pattern": "Pattern", "maxItems": "MaxItems",
    "minItems": "MinItems", "uniqueItems": "UniqueItems", "multipleOf": "MultipleOf", "required": "Required",
    "items": "Items", "properties": "Properties", "externalDocs": "ExternalDocs", "example": "Example",
    PRESERVE: "XPreserveUnknownFields", RULES: "XValidations",
}  # fmt: skip
"""What the root of a schema may say where there is a status subresource, with its name upstream."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the schema the walk stands, and what its place means for it."""

    root: bool = True
    logical: bool = False
    """Within `allOf` and the like, where no rule is compiled."""
    no_defaults: str = ""
    in_meta: bool = False
    uncorrelated: str = ""
    """The highest level above whose old value nothing can be told."""
    often: int | None = 1
    """How many values of it an object can have; None where nothing bounds them."""

    def inner(self) -> _Place:
        return replace(self, root=False)


@dataclass(slots=True)
class _Findings:
    schema: list[FieldError] = field(default_factory=list)
    rules: list[FieldError] = field(default_factory=list)
    costs: RuleCosts = field(default_factory=RuleCosts)


def custom_schema(schema: JsonObject, path: str, *, status: bool) -> FieldErrors:
    """Everything wrong with an `openAPIV3Schema`. `status`: the kind has that subresource."""
    return iter(_judged_once(json.dumps(schema), path, status))


@lru_cache(maxsize=8)
def _judged_once(written: str, path: str, status: bool) -> tuple[FieldError, ...]:
    """A policy's schema takes a tenth of a second, and each write of the definition has it judged anew."""
    return tuple(_judged(json.loads(written), path, status=status))


def _judged(schema: JsonObject, path: str, *, status: bool) -> FieldErrors:
    of_root = tuple(_root_with_status(schema, path)) if status else ()
    yield from of_root
    if flag(schema, "nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    sound, strange = False, next(_outlandish(schema), None)
    if strange is None:
        errors = list(schema_problems(schema, path)) or list(_defaults(schema, path, root=True))
        yield from errors
        sound = not errors
    findings = _Findings()
    _level(schema, path, _Place(logical=not sound), findings, 0)
    yield from findings.schema
    yield from findings.rules
    yield from rules_too_dear(findings.costs, path)
    if strange is not None and not (findings.schema or of_root) and strange.get("$schema"):
        yield invalid(path, "", "OpenAPIV3Schema 'schema' is not supported")


def _root_with_status(schema: JsonObject, path: str) -> FieldErrors:
    """What must stay out of the root, so that the status' own schema is the whole of it."""
    for key, value in schema.items():
        if value in (None, "", False):
            continue
        if key == "type" and value != "object":
            words = (
                'only "object" is allowed as the type at the root of the schema if the status subresource '
                "is enabled"
            )
            yield invalid(f"{path}.type", value, words)
            return
        if key not in _ROOT_WITH_STATUS:
            allowed = " ".join(_ROOT_WITH_STATUS.values())
            words = (
                f"only [{allowed}] fields are allowed at the root of the schema if the status subresource "
                "is enabled"
            )
            yield invalid(path, schema_in_go(schema), words)
            return


def _outlandish(schema: JsonObject) -> Iterator[JsonObject]:
    """Levels that cannot be structural, whatever else they say."""
    if any(schema.get(key) for key in (*_UNSUPPORTED, "$schema")) or isinstance(
        schema.get("items") or {}, list
    ):
        yield schema
    for _, inner in _held(schema):
        yield from _outlandish(inner)


def _held(schema: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """The schemas directly in a schema, with where they stand."""
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        yield "additionalProperties", extra
    for name, inner in mapping(schema, "properties").items():
        if isinstance(inner, dict):
            yield f"properties[{name}]", inner
    if isinstance(schema.get("not"), dict):
        yield "not", mapping(schema, "not")
    for key in ("allOf", "oneOf", "anyOf"):
        for index, inner in enumerate(mappings(schema, key)):
            yield f"{key}[{index}]", inner
    if isinstance(schema.get("items"), dict):
        yield "items", mapping(schema, "items")


def formats_of(schema: JsonObject) -> Iterator[str]:
    """Formats of strings that a schema names anywhere."""
    if text(schema, "type") == "string" and text(schema, "format"):
        yield text(schema, "format")
    for _, inner in _held(schema):
        yield from formats_of(inner)


def has_defaults(schema: JsonObject) -> bool:
    """Whether a schema has any."""
    return schema.get("default") is not None or any(has_defaults(inner) for _, inner in _held(schema))


def _defaults(schema: JsonObject, path: str, *, root: bool = False) -> FieldErrors:
    """Defaults that the schema itself would refuse. Those of metadata are not looked into."""
    default = schema.get("default")
    if default is not None:
        if isinstance(default, dict) and prune({**schema, EMBEDDED: False}, default).unknown:
            yield invalid(f"{path}.default", default, "must not have unknown fields")
        whole: JsonObject = {**schema, EMBEDDED: True} if root else schema
        place = f"{path}.default"
        errors = validate_value(default, whole)
        for error in errors:
            within = error.field.removeprefix("<nil>").lstrip(".")
            yield replace(error, field=f"{place}.{within}" if within else place)
        if not errors:
            holder: JsonObject = {"type": "object", "properties": {"default": schema}}
            broken, _ = rule_problems(holder, {"default": default}, None)
            yield from (replace(error, field=f"{path}.{error.field}") for error in broken)
    if isinstance(schema.get("items"), dict):
        yield from _defaults(mapping(schema, "items"), f"{path}.items")
    for name, inner in mapping(schema, "properties").items():
        if isinstance(inner, dict) and not ((root or flag(schema, EMBEDDED)) and name in _META):
            yield from _defaults(inner, f"{path}.properties[{name}]")


def _level(schema: JsonObject, path: str, place: _Place, findings: _Findings, depth: int) -> None:
    """One schema and those in it. Rules of a level are compiled where nothing in it is wrong."""
    if depth > DEEPEST:
        return
    own = _Findings(costs=findings.costs)
    own.schema += _standard(schema, path, place)
    if flag(schema, "uniqueItems"):
        words = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        own.schema.append(forbidden(f"{path}.uniqueItems", words))
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        words = "additionalProperties and properties are mutual exclusive"
        own.schema.append(forbidden(f"{path}.additionalProperties", words))
    for key, inner in _held(schema):
        _level(inner, f"{path}.{key}", _place_of(key, schema, path, place), own, depth + 1)
    own.schema += _kinds(schema, path)
    own.schema += _unset_keys(schema, path)
    rules = [rule for rule in items(schema, RULES) if isinstance(rule, dict)]
    for index, rule in enumerate(rules):
        own.schema += rule_text(rule, schema, f"{path}.{RULES}[{index}]")
    if not own.schema and not place.logical:
        kind = kind_of(schema, root=place.root or flag(schema, EMBEDDED))
        if rules and kind is None:
            own.rules.append(internal(f"{path}.{RULES}", _UNTYPED))
        elif rules and kind is not None:
            often = place.often if place.often is not None else most_of_size(kind)
            where = RulePlace(f"{path}.{RULES}", kind, often, place.uncorrelated, findings.costs)
            own.rules += compiled_rules(rules, where)
    findings.schema += own.schema
    findings.rules += own.rules


def _place_of(key: str, schema: JsonObject, path: str, place: _Place) -> _Place:
    most = most_inside(schema)
    often = None if place.often is None or most is None else min(place.often * most, MOST)
    inner = replace(place.inner(), often=often)
    if key == "additionalProperties":
        words = "inside additionalProperties applying to object metadata"
        return replace(inner, no_defaults=words) if place.in_meta else inner
    if key == "items":
        if text(schema, LIST_TYPE) == "map":
            return inner
        return replace(inner, uncorrelated=place.uncorrelated or path)
    if not key.startswith("properties["):
        return replace(inner, logical=True)
    name = key.removeprefix("properties[")[:-1]
    if (place.root or flag(schema, EMBEDDED)) and name in _META:
        inner = replace(inner, in_meta=True)
        return replace(inner, no_defaults=f"in top-level {name}") if place.root else inner
    return inner


def _standard(schema: JsonObject, path: str, place: _Place) -> FieldErrors:
    """OpenAPI's own fields."""
    kind = text(schema, "type")
    if kind and kind not in TYPES:
        yield unsupported(f"{path}.type", kind, TYPES)
    if schema.get("default") is not None and place.no_defaults:
        yield forbidden(f"{path}.default", f"must not be set {place.no_defaults}")
    for key in _UNSUPPORTED:
        if schema.get(key) or (key in _EVEN_EMPTY and schema.get(key) is not None):
            yield forbidden(f"{path}.{key}", f"{key} is not supported")
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list) and schema["items"]:
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.in_meta and flag(schema, EMBEDDED):
        yield forbidden(f"{path}.{EMBEDDED}", "must not be used inside of resource meta")


def _kinds(schema: JsonObject, path: str) -> FieldErrors:
    """Kubernetes' own fields: what kinds of maps and lists there are."""
    if schema.get(PRESERVE) is False:
        yield invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")
    if MAP_TYPE in schema and schema[MAP_TYPE] is not None:
        yield from _of_type(schema, "object", MAP_TYPE, path)
        if text(schema, MAP_TYPE) not in _MAP_TYPES:
            yield unsupported(f"{path}.{MAP_TYPE}", text(schema, MAP_TYPE), _MAP_TYPES)
    listed = schema.get(LIST_TYPE) is not None
    if listed:
        wrong = list(_of_type(schema, "array", LIST_TYPE, path))
        yield from wrong or _atomic_elements(schema, path)
        if text(schema, LIST_TYPE) not in _LIST_TYPES:
            yield unsupported(f"{path}.{LIST_TYPE}", text(schema, LIST_TYPE), _LIST_TYPES)
    if items(schema, LIST_KEYS) and text(schema, LIST_TYPE) != "map":
        words = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.{LIST_TYPE}"
        yield invalid(where, text(schema, LIST_TYPE), words) if listed else required(where, words)
    if text(schema, LIST_TYPE) == "map":
        yield from _keyed(schema, path)


def _of_type(schema: JsonObject, expected: str, key: str, path: str) -> FieldErrors:
    kind, words = text(schema, "type"), f"must be {expected} if {key} is specified"
    if kind != expected:
        yield invalid(f"{path}.type", kind, words) if kind else required(f"{path}.type", words)


def _atomic_elements(schema: JsonObject, path: str) -> FieldErrors:
    """Elements of a set are compared whole."""
    element, words = (
        mapping(schema, "items"),
        "must be atomic as item of a list with x-kubernetes-list-type=set",
    )
    if text(schema, LIST_TYPE) != "set" or not element:
        return
    kind, shown = text(element, "type"), at(element, LIST_TYPE)
    if kind == "array" and text(element, LIST_TYPE) not in ("", "atomic"):
        yield invalid(f"{path}.items.{LIST_TYPE}", shown, words)
    if kind == "object" and text(element, MAP_TYPE) != "atomic":
        yield invalid(f"{path}.items.{MAP_TYPE}", shown, words)


def _keyed(schema: JsonObject, path: str) -> FieldErrors:
    """A list whose elements have keys."""
    keys, element = texts(schema, LIST_KEYS), mapping(schema, "items")
    if not keys:
        yield required(f"{path}.{LIST_KEYS}", "must not be empty if x-kubernetes-list-type is map")
    if schema.get("items") is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if text(element, "type") != "object":
        words = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", text(element, "type"), words)
        return
    shown = list[JsonValue](keys)
    for index, key in enumerate(keys):
        declared = mapping(element, "properties", key)
        if key not in mapping(element, "properties"):
            yield invalid(f"{path}.{LIST_KEYS}", shown, "entries must all be names of item properties")
        elif text(declared, "type") in ("array", "object"):
            words = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", text(element, "type"), words)
        if key in keys[:index]:
            yield invalid(f"{path}.{LIST_KEYS}", shown, "must not contain duplicate entries")


def _unset_keys(schema: JsonObject, path: str) -> FieldErrors:
    """Elements of sets and maps are never null, nor are their keys left out."""
    kind, element = text(schema, LIST_TYPE), mapping(schema, "items")
    if kind not in ("set", "map") or not element:
        return
    if flag(element, "nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {kind}")
    for key in texts(schema, LIST_KEYS) if kind == "map" else ():
        declared, where = mapping(element, "properties", key), f"{path}.items.properties[{key}]"
        if key not in mapping(element, "properties"):
            continue
        subject = "this property is in x-kubernetes-list-map-keys, so it"
        if key not in texts(element, "required") and declared.get("default") is None:
            yield required(f"{where}.default", f"{subject} must have a default or be a required property")
        if flag(declared, "nullable"):
            yield forbidden(f"{where}.nullable", f"{subject} cannot be nullable")
