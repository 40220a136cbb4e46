"""The schema tables: what they say of Kubernetes' kinds, held against upstream's own JSON Schemas."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from tonnage.wire.schema import Field, ObjectType, load_schema

# The module's group prefix in OpenAPI names, for packages whose name does not tell it.
_PREFIXES: Final = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}
_FORMATS: Final = {
    "string": ("string", ""),
    "bool": ("boolean", ""),
    "int32": ("integer", "int32"),
    "int64": ("integer", "int64"),
    "float64": ("number", "double"),
    "bytes": ("string", "byte"),
}
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_NAMED: Final = {
    "quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "int-or-string": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "time": "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
    "micro-time": "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
    "schema-or-array": f"{_EXTENSIONS}.JSONSchemaPropsOrArray",
    "schema-or-bool": f"{_EXTENSIONS}.JSONSchemaPropsOrBool",
    "schema-or-strings": f"{_EXTENSIONS}.JSONSchemaPropsOrStringArray",
}
# Types that upstream's OpenAPI does not publish: options that travel as query parameters, what discovery
# sends, and the like.
_UNPUBLISHED: Final = 33


@cache
def definitions() -> dict[str, Any]:
    """Upstream's JSON Schemas of 1.35, by OpenAPI name."""
    spec = find_spec("kubernetes_validate")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "kubernetes-json-schema/v1.35.0-local/_definitions.json"
    found: dict[str, Any] = json.loads(path.read_bytes())["$defs"]
    return found


def openapi_name(name: str) -> str:
    package, _, kind = name.rpartition(".")
    group, _, version = package.partition("/")
    return f"{_PREFIXES.get(group, f'io.k8s.api.{group}')}.{version}.{kind}"


def published() -> list[ObjectType]:
    return [
        described for name, described in load_schema().types.items() if openapi_name(name) in definitions()
    ]


def says_type(field: Field, word: str, upstream: dict[str, Any]) -> bool:
    """Whether the table's word for a field, or for an element of it, is what upstream says."""
    kinds = upstream.get("type")
    kind = next((one for one in kinds if one != "null"), "") if isinstance(kinds, list) else kinds
    target = str(upstream.get("$ref", "")).rpartition("/")[2]
    for alternative in (*upstream.get("oneOf", ()), *upstream.get("allOf", ()), *upstream.get("anyOf", ())):
        target = target or str(alternative.get("$ref", "")).rpartition("/")[2]
    if word == "object":
        return target == openapi_name(field.ref)
    if word == "array" or word.startswith("array:"):
        inner = field.item if word == "array" else word.partition(":")[2]
        return kind == "array" and says_type(field, inner, upstream["items"])
    if word == "map":
        return kind == "object" and says_type(field, field.item, upstream["additionalProperties"])
    if word in _FORMATS:
        return (kind, upstream.get("format", "")) == _FORMATS[word]
    if word in _NAMED:
        return target == _NAMED[word]
    return True  # raw JSON and durations have many names


def test_nearly_every_type_of_the_table_is_published_upstream() -> None:
    missing = [name for name in load_schema().types if openapi_name(name) not in definitions()]
    assert len(missing) <= _UNPUBLISHED, missing
    assert len(published()) > 450


def test_every_type_has_upstreams_fields() -> None:
    wrong = {
        described.name: sorted(
            {*described.fields} ^ {*definitions()[openapi_name(described.name)]["properties"]}
        )
        for described in published()
        if described.fields
        and {*described.fields} != {*definitions()[openapi_name(described.name)].get("properties", ())}
    }
    assert wrong == {}


def test_every_field_has_upstreams_type() -> None:
    wrong = [
        (described.name, field.name, field.type, upstream)
        for described in published()
        for field in described.fields.values()
        for upstream in [definitions()[openapi_name(described.name)]["properties"][field.name]]
        if not says_type(field, field.type, {k: v for k, v in upstream.items() if k != "description"})
    ]
    assert wrong == []


def test_every_field_is_required_where_upstream_requires_it() -> None:
    wrong = [
        (described.name, sorted(ours ^ theirs))
        for described in published()
        for ours in [{field.name for field in described.fields.values() if field.required}]
        for theirs in [set(definitions()[openapi_name(described.name)].get("required", ()))]
        if ours != theirs
    ]
    assert wrong == []


def test_every_list_and_map_merges_as_upstream_merges_it() -> None:
    def merging(field: Field, upstream: dict[str, Any]) -> tuple[object, object]:
        keys = ("x-kubernetes-list-map-keys", "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key")
        strategy = ",".join(field.patch_strategy)
        ours = ([*field.map_keys], strategy, field.merge_key, field.list_type)
        kind = upstream.get("x-kubernetes-list-type", upstream.get("x-kubernetes-map-type", ""))
        listed, *rest = (upstream.get(key, "") for key in keys)
        return ours, ([*listed], *rest, kind)

    wrong = [
        (described.name, field.name, ours, theirs)
        for described in published()
        for field in described.fields.values()
        for upstream in [definitions()[openapi_name(described.name)]["properties"][field.name]]
        for ours, theirs in [merging(field, upstream)]
        if ours != theirs and "$ref" not in upstream
    ]
    assert wrong == []


def test_every_kind_knows_its_type_and_its_subresources_do() -> None:
    schema = load_schema()
    assert [row.kind for row in schema.kinds if row.type not in schema.types] == []
    assert len({(row.group, row.version, row.kind) for row in schema.kinds}) == len(schema.kinds)


@pytest.mark.parametrize(
    ("group", "version", "kind", "plural", "short", "namespaced"),
    [
        pytest.param("", "v1", "Pod", "pods", ("po",), True, id="pods"),
        pytest.param("", "v1", "Node", "nodes", ("no",), False, id="nodes"),
        pytest.param("apps", "v1", "DaemonSet", "daemonsets", ("ds",), True, id="daemon sets"),
        pytest.param(
            "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", ("pc",), False, id="classes"
        ),
        pytest.param("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", (), False, id="slices"),
    ],
)
def test_kinds_have_their_names(
    group: str, version: str, kind: str, plural: str, short: tuple[str, ...], namespaced: bool
) -> None:
    row = load_schema().kind(group, version, kind)
    assert row is not None
    assert (row.plural, row.short_names, row.namespaced) == (plural, short, namespaced)


def test_pods_have_the_subresources_that_the_twin_serves() -> None:
    row = load_schema().kind("", "v1", "Pod")
    assert row is not None
    assert {sub.name for sub in row.subresources} >= {"binding", "eviction", "exec", "log", "status"}
    eviction = row.subresource("eviction")
    assert eviction is not None
    assert (eviction.group, eviction.version, eviction.kind) == ("policy", "v1", "Eviction")


def test_a_field_carries_all_that_patches_and_protobuf_need() -> None:
    ports = load_schema().types["core/v1.Container"].fields["ports"]
    assert (ports.list_type, ports.map_keys) == ("map", ("containerPort", "protocol"))
    assert (ports.patch_strategy, ports.merge_key, ports.number) == (("merge",), "containerPort", 6)
    assert load_schema().types["core/v1.ContainerPort"].fields["protocol"].default == "TCP"


def test_inlined_structs_lend_their_fields_and_keep_their_number() -> None:
    volume = load_schema().types["core/v1.Volume"]
    assert volume.fields["emptyDir"].inside == ("VolumeSource",)
    assert volume.fields["emptyDir"].number == 0
    assert [(inline.ref, inline.number) for inline in volume.inlined] == [("core/v1.VolumeSource", 2)]
