"""The documents that clients read about the kinds that there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tonnage.twin.apiserver.openapi import OpenApi
from tonnage.twin.apiserver.openapi_second import encoded_second
from tonnage.twin.apiserver.resources import CustomVersion, Registry, Served
from tonnage.wire.schema import KindRow, load_schema

_POD_SPEC = "io.k8s.api.core.v1.PodSpec"


@pytest.fixture(scope="module")
def second() -> Any:
    return OpenApi(Registry(load_schema())).second()


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
    registry.replace_custom("things.e.io", [Served(row, "ThingList", CustomVersion("", "e.io/v1", schema))])
    document: Any = msgspec.json.decode(OpenApi(registry).document("apis/e.io/v1"))
    shown = document["components"]["schemas"]["io.e.v1.Thing"]["properties"]["held"]["items"]
    assert shown["required"] == ["kind", "apiVersion"]
    assert list(shown["properties"]) == ["apiVersion", "kind", "metadata"]
    assert "properties" not in whole


def test_a_small_document_in_protobuf() -> None:
    document: Any = {
        "info": {"title": "T", "version": "v"},
        "definitions": {"A": {"type": "object", "required": ["b"], "x-y": [1]}},
    }
    schema = b"\xb2\x01\x08\x0a\x06object" + b"\x9a\x01\x01b" + b"\xfa\x01\x0c\x0a\x03x-y\x12\x05\x12\x03[1]"
    named = b"\x0a\x01A\x12" + bytes([len(schema)]) + schema
    definitions = b"\x0a" + bytes([len(named)]) + named
    expected = b"\x0a\x032.0" + b"\x12\x06\x0a\x01T\x12\x01v" + b"\x42\x00"
    assert encoded_second(document) == expected + b"\x4a" + bytes([len(definitions)]) + definitions
