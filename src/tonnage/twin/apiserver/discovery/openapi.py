"""OpenAPI v3 documents, one a group version: enough for kubectl's validation choice, patches and `explain`.

Field descriptions are sentences of Kubernetes' authors; they come from other packages when a document is
asked for (`descriptions`), and are nowhere kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from tonnage.decide.kubernetes.api.custom.structural import EMBEDDED
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import copied, flag, mapping, put, texts
from tonnage.ports.kubernetes import PatchType
from tonnage.twin.apiserver.discovery.descriptions import Descriptions, public_name
from tonnage.twin.apiserver.discovery.openapi_custom import unfold
from tonnage.twin.apiserver.discovery.openapi_second import second_openapi
from tonnage.twin.apiserver.resources import Registry, ServedResource
from tonnage.wire.schema import Field, Schema

_SCALARS: Final[dict[str, JsonObject]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "duration": {"type": "string"},
    "raw": {"type": "object"},
}
_MACHINERY: Final = "io.k8s.apimachinery.pkg"
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_PATCH: Final = f"{_MACHINERY}.apis.meta.v1.Patch"
_NAMED: Final[dict[str, tuple[str, JsonObject]]] = {
    "quantity": (
        f"{_MACHINERY}.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    "int-or-string": (
        f"{_MACHINERY}.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "time": (f"{_MACHINERY}.apis.meta.v1.Time", {"type": "string", "format": "date-time"}),
    "micro-time": (f"{_MACHINERY}.apis.meta.v1.MicroTime", {"type": "string", "format": "date-time"}),
    "runtime.RawExtension": (f"{_MACHINERY}.runtime.RawExtension", {"type": "object"}),
    "v1.FieldsV1": (f"{_MACHINERY}.apis.meta.v1.FieldsV1", {"type": "object"}),
    "v1.JSON": (f"{_EXTENSIONS}.JSON", {}),
    "schema-or-array": (f"{_EXTENSIONS}.JSONSchemaPropsOrArray", {}),
    "schema-or-bool": (f"{_EXTENSIONS}.JSONSchemaPropsOrBool", {}),
    "schema-or-strings": (f"{_EXTENSIONS}.JSONSchemaPropsOrStringArray", {}),
}
"""Scalars that people know by a name of their own."""
_HEAD: Final[JsonObject] = {
    "openapi": "3.0.0",
    "info": {"title": "Kubernetes", "version": "1.35"},
}
_PATHS: Final = ("api", "apis", "version", ".well-known/openid-configuration", "openid/v1/jwks")
_ANY_KIND: Final = "core/v1.Pod"
_MORE: Final = "additionalProperties"
_WRITES: Final = ("dryRun", "fieldManager", "fieldValidation")
_OF_ALL: Final = (("list", "get", "list", ()), ("create", "post", "post", _WRITES))
_OF_ONE: Final = (
    ("get", "get", "get", ()),
    ("update", "put", "put", _WRITES),
    ("patch", "patch", "patch", (*_WRITES, "force")),
    ("delete", "delete", "delete", ("dryRun",)),
)
"""A verb, its method, how it is called, and what may be said beside it."""


class OpenApi:
    """Documents made when they are asked for."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._built: dict[str, bytes] = {}

    def index(self) -> bytes:
        """Where each document is, with its hash."""
        documents: JsonObject = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_tag(path, kinds)}"}
            for path, kinds in sorted(self._all().items())
        }
        return msgspec.json.encode({"paths": documents})

    def tag(self, path: str) -> str | None:
        """The hash of a document, or None where there is none."""
        resources = self._all().get(path)
        return None if resources is None else _tag(path, resources)

    def document(self, path: str) -> bytes:
        """The document of `api/v1`, `apis/apps/v1` or another path that the index has."""
        resources = self._all()[path]
        if not resources:
            paths: JsonObject = {f"/{path}/": {"get": {"responses": {"200": {"description": "OK"}}}}}
            return msgspec.json.encode({**_HEAD, "paths": paths})
        if any(served.custom is not None for served in resources):
            return msgspec.json.encode(self._make(path, resources))
        if path not in self._built:
            self._built[path] = msgspec.json.encode(self._make(path, resources))
        return self._built[path]

    def second(self) -> JsonObject:
        """The one document of the second OpenAPI."""
        return second_openapi(self._make(path, resources) for path, resources in self._groups().items())

    def _groups(self) -> dict[str, list[ServedResource]]:
        """What is served, by group and version as paths name them."""
        return {
            (f"apis/{group}/{version}" if group else f"api/{version}"): resources
            for group, versions in self._registry.group_versions().items()
            for version, resources in versions.items()
        }

    def _all(self) -> dict[str, list[ServedResource]]:
        """What each document is of: kinds of a version, or nothing but a path at which groups are told."""
        versions = self._groups()
        bare_paths = (*_PATHS, *{path.rpartition("/")[0] for path in versions})
        return {**{path: [] for path in bare_paths}, **versions}

    def _make(self, path: str, resources: list[ServedResource]) -> JsonObject:
        schemas = _Schemas(self._registry.schema, Descriptions())
        schemas.add_named(_PATCH, {"type": "object"})
        paths: JsonObject = {}
        for served in resources:
            schemas.add_kind(served)
            paths |= _paths(path, served)
        return {**_HEAD, "paths": paths, "components": {"schemas": schemas.schemas}}


def _tag(path: str, resources: list[ServedResource]) -> str:
    # Clients keep a document as long as its hash stays: it changes with what custom kinds look like.
    facts = [[served.row.kind, served.custom.schema if served.custom else None] for served in resources]
    return hashlib.sha512(msgspec.json.encode([path, facts])).hexdigest().upper()


def _paths(path: str, served: ServedResource) -> JsonObject:
    row = served.row
    kind: JsonObject = {"group": row.group, "version": row.version, "kind": row.kind}
    base = f"/{path}/namespaces/{{namespace}}/{row.plural}" if row.namespaced else f"/{path}/{row.plural}"

    def operation(action: str, *parameters: str) -> JsonObject:
        listed: list[JsonValue] = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in parameters
        ]
        body: JsonObject = {"requestBody": _patch_body(custom=served.custom is not None)}
        return {
            **({"parameters": listed} if listed else {}),
            **(body if action == "patch" else {}),
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
        }

    operations: JsonObject = {}
    for where, rows in ((base, _OF_ALL), (f"{base}/{{name}}", _OF_ONE)):
        for verb, method, action, parameters in rows:
            if verb in row.verbs:
                put(operations, operation(action, *parameters), where, method)
    return operations


def _patch_body(*, custom: bool) -> JsonObject:
    """What patches of a kind may be: kubectl asks this before it merges with what it knows of the kind."""
    types = (PatchType.APPLY, PatchType.JSON, PatchType.MERGE, *(() if custom else (PatchType.STRATEGIC,)))
    schema: JsonObject = {"schema": {"$ref": f"#/components/schemas/{_PATCH}"}}
    return {"content": {patch_type.value: copied(schema) for patch_type in types}, "required": True}


def _values(field: Field) -> str:
    """The values that a field may have, as upstream lists them below its text, but for what they mean."""
    listed = (f' - `"{value}"`' for value in field.enum)
    return "\n".join(("Possible enum values:", *listed))


class _Schemas:
    """Schemas of kinds and of every type that they are made of."""

    def __init__(self, schema: Schema, descriptions: Descriptions) -> None:
        self.schemas: JsonObject = {}
        self._schema = schema
        self._descriptions = descriptions

    def add_kind(self, served: ServedResource) -> None:
        """Add a kind, marked as one."""
        row = served.row
        kind: JsonObject = {"group": row.group, "version": row.version, "kind": row.kind}
        if served.custom is None:
            name = self._add_type(row.type)
            described = self.schemas[name]
        else:
            name = f"{'.'.join(reversed(row.group.split('.')))}.{row.version}.{row.kind}"
            described = self.schemas[name] = self._custom(served.custom.schema)
        assert isinstance(described, dict)
        described["x-kubernetes-group-version-kind"] = [kind]

    def add_named(self, name: str, described: JsonObject) -> None:
        """Add a type that is no struct."""
        if name not in self.schemas:
            about = self._descriptions.published(name)
            self.schemas[name] = copied(described) | ({"description": about} if about else {})

    def _custom(self, schema: JsonObject) -> JsonObject:
        described = copied(schema)
        unfold(described)
        self._embed(described)
        # What every kind has is described as the built-in kinds describe it.
        self._identify(described, self._descriptions.of(_ANY_KIND)[1])
        return described

    def _identify(self, schema: JsonObject, described: Mapping[str, str]) -> None:
        """Give a schema what every object has."""
        own = schema.setdefault("properties", {})
        assert isinstance(own, dict)
        metadata = self._add_type("meta/v1.ObjectMeta")
        fields: dict[str, JsonObject] = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": f"#/components/schemas/{metadata}"}]},
        }
        for name, field in fields.items():
            own[name] = field | ({"description": described[name]} if described.get(name) else {})

    def _embed(self, schema: JsonObject) -> None:
        """Give the whole objects in a schema what every object has."""
        inside = (*mapping(schema, "properties").values(), schema.get("items"), schema.get(_MORE))
        for inner in inside:
            if isinstance(inner, dict):
                self._embed(inner)
        if flag(schema, EMBEDDED):
            about = self._descriptions.of(_ANY_KIND)[1].get("metadata", "")
            self._identify(schema, {"metadata": about})
            required = texts(schema, "required")
            schema["required"] = [
                *required,
                *(name for name in ("kind", "apiVersion") if name not in required),
            ]

    def _add_type(self, type_name: str) -> str:
        name = public_name(type_name)
        if name in self.schemas:
            return name
        described: JsonObject = {"type": "object"}
        # Set before its fields are read: types contain themselves.
        self.schemas[name] = described
        about, fields = self._descriptions.of(type_name)
        if about:
            described["description"] = about
        properties: JsonObject = {}
        for field in self._schema.types[type_name].fields.values():
            properties[field.name] = self._field(field, fields.get(field.name, ""))
        if properties:
            described["properties"] = properties
        required: list[JsonValue] = [
            field.name for field in self._schema.types[type_name].fields.values() if field.required
        ]
        if required:
            described["required"] = required
        return name

    def _field(self, field: Field, about: str) -> JsonObject:
        schema = self._of(field.type, field)
        if field.enum and field.type == "string":
            about = f"{about}\n\n{_values(field)}".lstrip()
        if about:
            schema["description"] = about
        if field.merge_key:
            schema["x-kubernetes-patch-merge-key"] = field.merge_key
        if field.patch_strategy:
            schema["x-kubernetes-patch-strategy"] = ",".join(field.patch_strategy)
        if field.list_type and field.type == "array":
            schema["x-kubernetes-list-type"] = field.list_type
        if field.map_keys:
            schema["x-kubernetes-list-map-keys"] = list(field.map_keys)
        if field.enum:
            inner = schema.get("items") or schema.get("additionalProperties")
            (inner if isinstance(inner, dict) else schema)["enum"] = list(field.enum)
        if field.default is not None:
            schema["default"] = field.default
        return schema

    def _of(self, word: str, field: Field) -> JsonObject:
        """The schema of a type's word, such as `array`, `string` or `array:string`."""
        match word.partition(":"):
            case ("array", _, inner):
                return {"type": "array", "items": self._of(inner or field.item, field)}
            case ("map", _, inner):
                return {"type": "object", "additionalProperties": self._of(inner or field.item, field)}
            case ("object" | "", _, _) if field.ref in self._schema.types:
                return {"allOf": [{"$ref": f"#/components/schemas/{self._add_type(field.ref)}"}]}
        named = _NAMED.get(field.go.removeprefix("[]") if word == "raw" else word)
        if named is not None:
            name, described = named
            self.add_named(name, described)
            return {"allOf": [{"$ref": f"#/components/schemas/{name}"}]}
        return copied(_SCALARS.get(word, {"type": "object"}))
