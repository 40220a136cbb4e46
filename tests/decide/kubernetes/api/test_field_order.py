"""In which order the fields of objects are told."""

from __future__ import annotations

import json

import pytest

from tonnage.adapters.clock import SystemClock
from tonnage.decide.kubernetes.api.encoding.field_order import ObjectShapes
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.requests import ResourcePath
from tonnage.twin.apiserver.server import ApiServer
from tonnage.wire.schema import load_schema

_ROWS: list[tuple[str, JsonObject, list[str]]] = [
    (
        "fields of a struct are told as Go's struct has them",
        {"spec": {"nodeName": "n", "containers": []}, "apiVersion": "v1", "kind": "Pod"},
        ["kind", "apiVersion", "spec", "containers", "nodeName"],
    ),
    (
        "so are those of structs in lists",
        {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": "i", "name": "c"}]}},
        ["kind", "apiVersion", "spec", "containers", "name", "image"],
    ),
    (
        "keys of maps are told by their names",
        {"apiVersion": "v1", "kind": "Node", "metadata": {"labels": {"b": "1", "a": "2"}, "name": "n"}},
        ["kind", "apiVersion", "metadata", "name", "labels", "a", "b"],
    ),
    (
        "fields of custom kinds are told by their names, metadata too",
        {"kind": "Foo", "spec": {"b": [{"d": 1, "c": 2}]}, "metadata": {"uid": "u", "name": "n"}},
        ["kind", "metadata", "name", "uid", "spec", "b", "c", "d"],
    ),
]


@pytest.mark.parametrize(("obj", "messages"), [row[1:] for row in _ROWS], ids=[row[0] for row in _ROWS])
def test_fields_are_told_in_the_order_of_their_kind(obj: JsonObject, messages: list[str]) -> None:
    shaped = ObjectShapes(load_schema()).shaped(obj)
    assert _names(shaped) == messages
    assert shaped == obj


def test_what_is_in_order_is_not_made_anew() -> None:
    shapes = ObjectShapes(load_schema())
    obj = shapes.shaped(
        {"spec": {"nodeName": "n"}, "metadata": {"name": "p"}, "apiVersion": "v1", "kind": "Pod"}
    )
    assert shapes.shaped(obj) is obj


async def test_what_admission_and_binding_add_to_a_pod_stands_in_its_place() -> None:
    twin = ApiServer(SystemClock())
    address = ResourcePath(("", "v1", "pods"), "default")
    body: JsonObject = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await twin.verbs.create(twin.verbs.request("create", address), body)
    bound = ResourcePath(("", "v1", "pods"), "default", "p", "binding")
    target: JsonObject = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    await twin.verbs.create_subresource(twin.verbs.request("create", bound), target)
    stored = twin.store.get(("", "pods"), ("default", "p"))
    assert stored is not None
    order = list(load_schema().types["core/v1.PodSpec"].fields)
    spec = json.loads(stored.json)["spec"]
    assert list(spec) == [name for name in order if name in spec]
    assert "nodeName" in spec


def _names(value: object) -> list[str]:
    """The names of all fields, from the outside to the inside."""
    if isinstance(value, list):
        return [name for one in value for name in _names(one)]
    if not isinstance(value, dict):
        return []
    return [name for key, one in value.items() for name in (key, *_names(one))]
