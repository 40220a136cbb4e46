"""The documents that clients read about the kinds that there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tonnage.twin.apiserver.discovery.openapi import OpenApi
from tonnage.twin.apiserver.discovery.openapi_second import encoded_second
from tonnage.twin.apiserver.resources import CustomVersion, Registry, ServedResource
from tonnage.wire.schema import KindRow, load_schema

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
_POD_SPEC = "io.k8s.api.core.v1.PodSpec"


@pytest.fixture(scope="module")
def second() -> Any:
    return OpenApi(Registry(load_schema())).second()


SPEC: Any = {
    "either": {"x-kubernetes-int-or-string": True},
    "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"pattern": "a"}], "allOf": [{"pattern": "b"}]},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {}}},
    "list": {"type": "array", "x-kubernetes-preserve-unknown-fields": True, "items": {"type": "string"}},
    "none": {"type": "object", "nullable": True, "properties": {"a": {"type": "string"}}},
    "one": {"type": "object", "oneOf": [{"required": ["a"]}]},
}


@pytest.fixture(scope="module")
def pools() -> OpenApi:
    """Documents about a custom kind, and about one that may hold anything."""
    registry = Registry(load_schema())
    root: Any = {"type": "object", "properties": {"spec": {"type": "object", "properties": SPEC}}}
    anything: Any = {"type": "object", "description": "x", "x-kubernetes-preserve-unknown-fields": True}
    for kind, schema in (("Pool", root), ("Any", anything)):
        plural = f"{kind.lower()}s"
        row = KindRow("example.com", "v1", kind, plural, kind.lower(), True, ("get", "patch"), "")
        version = CustomVersion(plural, "example.com/v1", schema)
        registry.replace_custom(plural, [ServedResource(row, f"{kind}List", version)])
    return OpenApi(registry)


def test_the_third_says_what_extensions_of_custom_kinds_mean(pools: OpenApi) -> None:
    document = msgspec.json.decode(pools.document("apis/example.com/v1"))
    fields = document["components"]["schemas"]["com.example.v1.Pool"]["properties"]["spec"]["properties"]
    either = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert fields["either"] == {**SPEC["either"], **either}
    assert fields["port"] == {**SPEC["port"], "allOf": [either, {"pattern": "b"}]}


def test_the_second_asks_nothing_of_what_may_be_null_or_anything(pools: OpenApi) -> None:
    definitions: Any = pools.second()["definitions"]
    fields = definitions["com.example.v1.Pool"]["properties"]["spec"]["properties"]
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    assert (fields["any"], fields["list"], fields["none"]) == (anything, anything, {})
    assert fields["one"] == {"type": "object"}
    assert fields["either"] == SPEC["either"]
    assert definitions["com.example.v1.Any"].keys() == {"type", "x-kubernetes-group-version-kind"}


def test_paths_say_what_can_be_done_with_a_kind(second: Any) -> None:
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    pod = "/api/v1/namespaces/{namespace}/pods"
    assert second["paths"][reviews].keys() == {"post"}
    assert f"{reviews}/{{name}}" not in second["paths"]
    assert second["paths"][pod].keys() == {"get", "post"}
    assert second["paths"][f"{pod}/{{name}}"].keys() == {"get", "put", "patch", "delete"}


def test_patches_say_what_they_may_be(second: Any, pools: OpenApi) -> None:
    strategic = "application/strategic-merge-patch+json"
    taken = {path: found["patch"]["consumes"] for path, found in second["paths"].items() if "patch" in found}
    assert all(strategic in media for media in taken.values())
    custom = msgspec.json.decode(pools.document("apis/example.com/v1"))["paths"].values()
    bodies = [found["patch"]["requestBody"]["content"] for found in custom if "patch" in found]
    assert [list(body) for body in bodies] == [[APPLY, "application/json-patch+json", MERGE]] * 2


def references(schema: Any) -> Iterator[str]:
    """Every reference in a schema."""
    if isinstance(schema, dict):
        yield from [schema["$ref"]] if isinstance(schema.get("$ref"), str) else ()
        for inner in schema.values():
            yield from references(inner)


def test_every_reference_of_the_second_leads_somewhere(second: Any) -> None:
    named = {f"#/definitions/{name}" for name in second["definitions"]}
    assert set(references(second["definitions"])) <= named


def test_what_the_third_combines_the_second_says_outright(second: Any) -> None:
    fields = second["definitions"][_POD_SPEC]["properties"]
    assert fields["containers"]["items"] == {"$ref": "#/definitions/io.k8s.api.core.v1.Container"}
    assert second["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"] == "string"
    assert "properties" not in second["definitions"]["io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"]


def test_values_are_listed_below_the_text(second: Any) -> None:
    about = second["definitions"][_POD_SPEC]["properties"]["restartPolicy"]["description"]
    assert about.endswith('\n\nPossible enum values:\n - `"Always"`\n - `"Never"`\n - `"OnFailure"`')


def test_whole_objects_within_custom_ones_have_what_every_object_has() -> None:
    whole = {"type": "object", "x-kubernetes-embedded-resource": True, "required": ["kind"]}
    schema: Any = {"type": "object", "properties": {"held": {"type": "array", "items": whole}}}
    row = KindRow("e.io", "v1", "Thing", "things", "thing", True, ("get",), "")
    registry = Registry(load_schema())
    registry.replace_custom(
        "things.e.io", [ServedResource(row, "ThingList", CustomVersion("", "e.io/v1", schema))]
    )
    document: Any = msgspec.json.decode(OpenApi(registry).document("apis/e.io/v1"))
    shown = document["components"]["schemas"]["io.e.v1.Thing"]["properties"]["held"]["items"]
    assert shown["required"] == ["kind", "apiVersion"]
    assert list(shown["properties"]) == ["apiVersion", "kind", "metadata"]
    assert "properties" not in whole


def part(tag: int, *inner: bytes) -> bytes:
    """A member of a message."""
    data = b"".join(inner)
    return bytes([tag, len(data)]) + data


def test_a_small_document_in_protobuf() -> None:
    patch = {"parameters": [{"name": "q"}], "x-kubernetes-group-version-kind": {}}
    document: Any = {
        "info": {"title": "T", "version": "v"},
        "paths": {"/a": {"get": {}, "patch": patch}, "/b": {"get": {}}},
        "definitions": {"A": {"type": "object", "required": ["b"], "x-y": [1]}},
    }
    query = part(0x1A, part(0x12, b"query"), part(0x22, b"q"))
    kind = part(0x6A, part(0x0A, b"x-kubernetes-group-version-kind"), part(0x12, part(0x12, b"{}")))
    patched = part(0x42, part(0x42, part(0x0A, part(0x12, query))), kind)
    paths = part(0x42, part(0x12, part(0x0A, b"/a"), part(0x12, patched)))
    schema = b"\xb2\x01\x08\x0a\x06object" + b"\x9a\x01\x01b" + b"\xfa\x01\x0c\x0a\x03x-y\x12\x05\x12\x03[1]"
    definitions = part(0x4A, part(0x0A, part(0x0A, b"A"), part(0x12, schema)))
    about = part(0x0A, b"2.0") + part(0x12, part(0x0A, b"T"), part(0x12, b"v"))
    assert encoded_second(document) == about + paths + definitions


def test_no_operation_of_the_third_has_an_empty_list_of_parameters(pools: OpenApi) -> None:
    # Clients write such a document again without it, and find that it is not what they read.
    for path in ("api/v1", "apis/example.com/v1"):
        found = msgspec.json.decode(pools.document(path))["paths"].values()
        assert [one for path in found for one in path.values() if one.get("parameters") == []] == []
