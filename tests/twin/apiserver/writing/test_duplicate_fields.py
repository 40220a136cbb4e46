"""What is said of bodies in which something stands twice, is unknown, or is left out."""

from __future__ import annotations

from typing import Any

import pytest

from support.api_stores import new_store
from tonnage.adapters.clock import SystemClock
from tonnage.decide.kubernetes.api.custom.structural import schema_problems
from tonnage.decide.kubernetes.api.encoding.body import BodyError, parse_json
from tonnage.decide.kubernetes.api.encoding.decode import decode
from tonnage.decide.kubernetes.api.encoding.protobuf import decode_envelope
from tonnage.decide.kubernetes.api.patches.strategic_merge import strategic_merge
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.ports.kubernetes import PatchType
from tonnage.twin.apiserver.reading.listing import ListQuery
from tonnage.twin.apiserver.requests import FieldValidation, Options, ResourcePath
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.serving.encodings.negotiation import form_for
from tonnage.twin.apiserver.serving.encodings.yaml_body import parse_yaml
from tonnage.twin.apiserver.serving.warnings import bounded
from tonnage.twin.apiserver.statuses import StatusError
from tonnage.twin.apiserver.verbs import Verbs
from tonnage.wire.schema import load_schema

_YAML = b"""\
kind: ConfigMap
zebra: 1
data:
  a: first
  b: n
  a: last
Apple: {}
data:
  c: "n"
  y: "1"
"""
_MAPS = ("", "v1", "configmaps")
_THINGS = ("example.org", "v1", "things")
_VERSION = "example.org/v1"


def test_of_a_key_of_yaml_that_stands_twice_the_last_counts_and_each_is_told() -> None:
    body = parse_yaml(_YAML)
    assert body == {"Apple": {}, "data": {"c": "n", "y": "1"}, "kind": "ConfigMap", "zebra": 1}
    assert isinstance(body, dict)
    assert list(body) == ["Apple", "data", "kind", "zebra"]
    told = decode(load_schema(), "core/v1.ConfigMap", body).unknown
    lines = ('line 6: key "a" already set in map', 'line 9: key "data" already set in map')
    assert told == (*lines, 'unknown field "Apple"', 'unknown field "zebra"')
    with pytest.raises(BodyError) as refused:
        decode(load_schema(), "core/v1.ConfigMap", body, strict=True)
    said = "\n  ".join(("strict decoding error: yaml: unmarshal errors:", *lines))
    assert refused.value.detail == f'{said}, unknown field "Apple", unknown field "zebra"'


def test_what_stands_twice_is_told_where_it_stands_again() -> None:
    text = b'{"metadata":{"name":"x","bogus":1,"name":"y"},"data":{"a":"1","a":"2"},"Data":{}}'
    told = decode(load_schema(), "core/v1.ConfigMap", parse_json(text)).unknown
    assert [one.partition(" field ")[::2] for one in told] == [
        ("unknown", '"metadata.bogus"'),
        ("duplicate", '"metadata.name"'),
        ("duplicate", '"data.a"'),
        ("unknown", '"Data"'),
    ]


@pytest.mark.parametrize(
    ("lengths", "told"),
    [
        pytest.param((1000, 3096), (1000, 3096), id="so much is told"),
        pytest.param((1000, 3097, 9), (256, 256, 9), id="more is cut, each for itself"),
        pytest.param((300,) * 40, (256,) * 16, id="and ends"),
    ],
)
def test_warnings_are_bounded(lengths: tuple[int, ...], told: tuple[int, ...]) -> None:
    words = [f"{place:09}".ljust(length, "x")[:length] for place, length in enumerate(lengths)]
    assert tuple(map(len, bounded([*words, words[0]]))) == told


def test_a_directive_within_a_new_element_of_a_list_is_told_as_unknown() -> None:
    ports: JsonValue = [{"containerPort": 80, "$patch": "delete"}]
    patch: JsonObject = {"spec": {"containers": [{"name": "b", "image": "i", "ports": ports}]}}
    pod: JsonObject = {"spec": {"containers": [{"name": "a", "image": "i"}]}}
    merged = strategic_merge(load_schema(), "core/v1.Pod", pod, patch)
    told = decode(load_schema(), "core/v1.Pod", merged).unknown
    assert told == ('unknown field "spec.containers[0].ports[0].$patch"',)


@pytest.mark.parametrize("key", ["default", "additionalProperties"])
def test_an_empty_value_within_logic_is_a_value(key: str) -> None:
    schema: JsonObject = {"type": "object", "allOf": [{key: {}}]}
    assert [one.field for one in schema_problems(schema, "s")] == [f"s.allOf[0].{key}"]


async def _with_things() -> Verbs:
    """A server on which `things` are scaled by `spec.replicas`."""
    verbs = ApiServer(SystemClock(), store=new_store()).verbs
    schema: Any = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {"size": {"type": "string"}, "replicas": {"type": "integer", "maximum": 3}},
            }
        },
    }
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition: Any = {
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"], "categories": ["all"]},
            "versions": [{**version, "subresources": {"status": {}, "scale": scale}}],
        },
    }
    path = ResourcePath(("apiextensions.k8s.io", "v1", "customresourcedefinitions"))
    await verbs.create(verbs.request("create", path), definition)
    made: Any = await verbs.get(
        verbs.request("get", ResourcePath(path.path, name=definition["metadata"]["name"]))
    )
    names = ["plural", "singular", "shortNames", "kind", "listKind", "categories"]
    assert list(made["status"]["acceptedNames"]) == names
    thing: Any = {"apiVersion": _VERSION, "kind": "Thing", "metadata": {"name": "one"}, "spec": {"size": "s"}}
    await verbs.create(verbs.request("create", ResourcePath(_THINGS, "default")), thing)
    return verbs


async def test_a_custom_object_is_refused_for_its_kind_and_then_from_the_inside_out() -> None:
    verbs = await _with_things()
    make = verbs.request("create", ResourcePath(_THINGS, "default"))
    with pytest.raises(
        ApiError, match=r'^Other.example.org "o" is invalid: kind: Invalid value: "Other": must'
    ):
        await verbs.create(make, {"apiVersion": _VERSION, "kind": "Other", "metadata": {"name": "o"}})
    wrong: Any = {"apiVersion": _VERSION, "kind": "Thing", "metadata": {"name": "w"}, "spec": {"replicas": 9}}
    with pytest.raises(ApiError, match=r"\[spec.replicas: Invalid value: 9: .*, spec.size: Required value"):
        await verbs.create(make, wrong)
    with pytest.raises(
        StatusError, match=r'^delete is not supported on resources of kind "things.example.org"$'
    ):
        verbs.request("delete", ResourcePath(_THINGS, "default", "one", "status"))


async def test_replicas_that_nobody_asked_for_are_no_scale() -> None:
    verbs = await _with_things()
    scale = ResourcePath(_THINGS, "default", "one", "scale")
    with pytest.raises(StatusError, match=r'the spec replicas field "\.spec\.replicas" does not exist$'):
        await verbs.get(verbs.request("get", scale))
    with pytest.raises(ApiError, match=r'the spec replicas field "\.spec\.replicas" cannot be empty'):
        await verbs.patch(verbs.request("patch", scale), PatchType.MERGE, {"status": {}})
    await verbs.patch(verbs.request("patch", scale), PatchType.MERGE, {"spec": {"replicas": 2}})
    shown: Any = await verbs.get(verbs.request("get", scale))
    assert shown["spec"] == {"replicas": 2}


async def test_a_scale_is_read_before_its_object_is_looked_for() -> None:
    verbs = await _with_things()
    strict = Options(field_validation=FieldValidation.STRICT)
    put = verbs.request("update", ResourcePath(_THINGS, "default", "none", "scale"), options=strict)
    with pytest.raises(ApiError, match=r'strict decoding error: unknown field "spec.bogus"'):
        await verbs.update(put, {"metadata": {"name": "none"}, "spec": {"bogus": 1}})


async def test_a_patch_is_told_of_what_stands_twice_and_of_what_is_unknown() -> None:
    verbs = await _with_things()
    strict = Options(field_validation=FieldValidation.STRICT)
    change = verbs.request("patch", ResourcePath(_THINGS, "default", "one"), options=strict)
    patch = parse_json(b'{"spec":{"size":"a","size":"b","bogus":1}}')
    with pytest.raises(ApiError, match=r'duplicate field "spec.size", unknown field "spec.bogus"'):
        await verbs.patch(change, PatchType.MERGE, patch)


async def test_after_the_object_that_a_selector_names_a_list_has_no_more() -> None:
    verbs = ApiServer(SystemClock(), store=new_store()).verbs
    for name in ("a", "b"):
        await verbs.create(
            verbs.request("create", ResourcePath(_MAPS, "default")), {"metadata": {"name": name}}
        )
    listed = verbs.request("list", ResourcePath(_MAPS, "default"))
    query = ListQuery("default", field_selector="metadata.name=a", limit=1)
    assert not verbs.page(listed, query).continue_token


@pytest.mark.parametrize(("subresource", "shown"), [("status", True), ("eviction", False)])
def test_some_subresources_are_no_tables(subresource: str, shown: bool) -> None:
    verbs = ApiServer(SystemClock(), store=new_store()).verbs
    verb = "create" if subresource == "eviction" else "get"
    request = verbs.request(verb, ResourcePath(("", "v1", "pods"), "default", "p", subresource))
    asked = "application/json;as=Table;v=v1;g=meta.k8s.io"
    if shown:
        assert form_for(asked, request, single=True, pretty=False).kind == "Table"
    else:
        with pytest.raises(StatusError, match="only the following media types are accepted"):
            form_for(asked, request, single=True, pretty=False)


def test_what_a_secret_holds_may_be_nothing() -> None:
    body: JsonObject = {"data": {"a": None}}
    assert decode(load_schema(), "core/v1.Secret", body, stored=True).value["data"] == {"a": ""}


@pytest.mark.parametrize(("data", "said"), [(b"", "empty data"), (b"k8s\x00", "empty body")])
def test_a_body_of_protobuf_that_is_none_says_so(data: bytes, said: str) -> None:
    with pytest.raises(BodyError, match=f"^{said}$"):
        decode_envelope(load_schema(), data)
