"""Patches against simple models: merge keys, orders, deletions, JSON pointers."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tonnage.decide.kubernetes.api.encoding.body import copy_json, parse_json
from tonnage.decide.kubernetes.api.patches.json_patches import (
    PatchError,
    json_patch,
    merge_patch,
    operation_complaints,
)
from tonnage.decide.kubernetes.api.patches.strategic_merge import strategic_merge
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.wire.schema import load_schema

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from("abc"), json_values, max_size=3)


def difference(old: JsonValue, new: JsonValue) -> JsonValue:
    """The merge patch from one object without nulls to another."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    gone: JsonObject = {key: None for key in old if key not in new}
    return gone | {
        key: difference(old.get(key), value) for key, value in new.items() if old.get(key) != value
    }


def without_nulls(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


@given(objects, objects)
def test_a_merge_patch_leads_from_one_object_to_another(old: JsonObject, new: JsonObject) -> None:
    start, end = without_nulls(old), without_nulls(new)
    before = copy_json(start)
    assert merge_patch(start, difference(start, end)) == end
    assert start == before


@given(objects, st.lists(st.sampled_from("abc"), min_size=1, max_size=3), json_values)
def test_a_json_patch_that_adds_and_removes_changes_nothing(
    obj: JsonObject, path: list[str], value: JsonValue
) -> None:
    pointer = "/" + "/".join(path)
    try:
        added = json_patch(obj, [{"op": "add", "path": pointer, "value": value}])
    except PatchError:
        return
    test: JsonValue = {"op": "test", "path": pointer, "value": value}
    assert json_patch(added, [test]) == added
    removed = json_patch(added, [test, {"op": "remove", "path": pointer}])
    assert json_patch(removed, [{"op": "add", "path": pointer, "value": value}]) == added


@given(objects, st.lists(json_values, max_size=3) | json_values)
def test_any_json_patch_applies_or_is_refused(obj: JsonObject, operations: JsonValue) -> None:
    before = copy_json(obj)
    with suppress(PatchError):
        assert isinstance(json_patch(obj, operations), dict)
    assert obj == before


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ({"op": 1}, "cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
        ("add", "cannot unmarshal string into Go value of type handlers.jsonPatchOp"),
        (None, "Unexpected kind: unknown"),
    ],
)
def test_an_operation_that_is_none_is_refused(operation: JsonValue, words: str) -> None:
    with pytest.raises(PatchError) as refusal:
        json_patch({}, [operation])
    assert words in refusal.value.detail


def test_members_that_operations_lack_or_have_twice_are_told() -> None:
    patch = parse_json(b'[{"op": "add", "op": "add", "why": 1, "value": {"a": 1, "a": 2}}]')
    assert operation_complaints(patch) == (
        'json patch unknown field "[0].why"',
        'json patch duplicate field "[0].op"',
        'json patch duplicate field "[0].value.a"',
    )


def test_a_patch_of_too_many_operations_is_too_large() -> None:
    with pytest.raises(ApiError) as refusal:
        json_patch({}, [{"op": "test", "path": "/a"}] * 10_001)
    assert refusal.value.code == 413


def merge(old: dict[str, Any], patch: dict[str, Any], kind: str = "core/v1.Pod") -> Any:
    return strategic_merge(load_schema(), kind, old, patch)


containers = st.lists(
    st.builds(
        lambda name, image: {"name": name, "image": image}, st.sampled_from("abcd"), st.sampled_from("xyz")
    ),
    max_size=4,
    unique_by=lambda container: container["name"],
)


@given(containers, containers)
def test_containers_merge_like_a_map_by_name(old: list[dict[str, str]], patch: list[dict[str, str]]) -> None:
    merged = merge({"spec": {"containers": old}}, {"spec": {"containers": patch}})["spec"]["containers"]
    model = {entry["name"]: entry for entry in old} | {entry["name"]: entry for entry in patch}
    assert {entry["name"]: entry for entry in merged} == model
    assert len(merged) == len(model)
    assert [entry for entry in merged if entry in patch] == patch


@given(containers, containers, st.permutations("abcd"))
def test_the_order_that_a_patch_states_is_kept(
    old: list[dict[str, str]], patch: list[dict[str, str]], names: list[str]
) -> None:
    assume(old or patch)  # else there is nothing to order, which is an error
    order = [{"name": name} for name in names]
    in_order = sorted(patch, key=lambda item: names.index(item["name"]))
    body = {"spec": {"$setElementOrder/containers": order, "containers": in_order}}
    merged = merge({"spec": {"containers": old}}, body)["spec"]["containers"]
    assert [entry["name"] for entry in merged] == [
        name for name in names if name in {item["name"] for item in (*old, *patch)}
    ]


@pytest.mark.parametrize(
    ("order", "patch", "expected"),
    [
        pytest.param("f", "f -a -d -e", "bcf", id="gone ones leave room for what is new"),
        pytest.param("af", "a f -d", "abcef", id="what is new stands where the last one was"),
        pytest.param("fdb", "-c f d -a", "efdb", id="directives stand anywhere"),
        pytest.param("fca", "f -d c a", "befca", id="the server's own may come first"),
        pytest.param("cfgab", "f g a b -e", "cdfgab", id="more are new than are gone"),
    ],
)
def test_what_only_the_server_has_stands_where_a_genuine_one_puts_it(
    order: str, patch: str, expected: str
) -> None:
    named = [{"name": word[-1]} | ({"$patch": "delete"} if "-" in word else {}) for word in patch.split()]
    body = {"$setElementOrder/containers": [{"name": name} for name in order], "containers": named}
    merged = merge({"spec": {"containers": [{"name": name} for name in "abcde"]}}, {"spec": body})
    assert "".join(container["name"] for container in merged["spec"]["containers"]) == expected


@given(st.lists(st.sampled_from("abcd"), unique=True), st.lists(st.sampled_from("abcd"), unique=True))
def test_finalizers_merge_like_a_set_and_leave_by_name(old: list[str], gone: list[str]) -> None:
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": gone}}
    merged = merge({"metadata": {"finalizers": old}}, patch)
    assert merged["metadata"]["finalizers"] == [name for name in old if name not in gone]


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [
        pytest.param(
            {"a": "1", "b": "2"}, {"a": None, "c": "3"}, {"b": "2", "c": "3"}, id="labels merge, null deletes"
        ),
        pytest.param({"a": "1"}, {"$patch": "replace", "b": "2"}, {"b": "2"}, id="replace"),
        pytest.param({"a": "1"}, {"$patch": "delete"}, {}, id="delete"),
    ],
)
def test_maps(old: dict[str, Any], patch: dict[str, Any], new: dict[str, Any]) -> None:
    assert merge({"metadata": {"labels": old}}, {"metadata": {"labels": patch}}) == {
        "metadata": {"labels": new}
    }


def test_an_element_is_deleted_by_its_merge_key() -> None:
    old = {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}
    patch = {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}
    assert merge(old, patch) == {"spec": {"containers": [{"name": "b"}]}}


def test_tolerations_have_no_merge_key_and_are_replaced() -> None:
    old = {"spec": {"tolerations": [{"key": "a"}, {"key": "b"}]}}
    assert merge(old, {"spec": {"tolerations": [{"key": "c"}]}}) == {"spec": {"tolerations": [{"key": "c"}]}}


def test_what_the_keys_to_retain_leave_out_goes() -> None:
    old = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert merge(old, patch, "apps/v1.Deployment") == {"spec": {"strategy": {"type": "Recreate"}}}


@pytest.mark.parametrize(
    ("patch", "detail"),
    [
        pytest.param(
            {"spec": {"$patch": "x"}}, "unknown patch type: x in map: map[$patch:x]", id="no such directive"
        ),
        pytest.param(
            {"spec": {"containers": [{"image": "x"}]}},
            "map: map[image:x] does not contain declared merge key: name",
            id="an element without its key",
        ),
        pytest.param(
            {"spec": {"$retainKeys": "x"}}, "invalid patch format of retainKeys", id="keys that are no list"
        ),
        pytest.param(
            {"spec": {"$patch": 1}},
            "unknown patch type: %!s(int64=1) in map: map[$patch:1]",
            id="a directive that is no text",
        ),
        pytest.param(
            {"spec": {"containers": ["a"]}},
            "list element types are not identical: [[map[name:a]] [a]]",
            id="elements of several types",
        ),
        pytest.param(
            {"spec": {"$setElementOrder/containers": "x"}},
            "expected a []interface {}, but received a string",
            id="an order that is no list",
        ),
        pytest.param(
            {"spec": {"$setElementOrder/containers": [{"x": 1}], "containers": [{"name": "a"}]}},
            "map: map[x:1] does not contain declared merge key: name",
            id="an order without keys",
        ),
        pytest.param(
            {"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}},
            "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
            id="an order that lacks an element",
        ),
        pytest.param(
            {"spec": {"$setElementOrder/volumes": [{"name": "a"}], "volumes": []}},
            "no elements in any of the given slices",
            id="an order of nothing",
        ),
    ],
)
def test_malformed_patches_say_what_is_wrong(patch: dict[str, Any], detail: str) -> None:
    with pytest.raises(PatchError) as refusal:
        merge({"spec": {"containers": [{"name": "a"}]}}, patch)
    assert refusal.value.detail == detail


def test_a_field_that_the_kind_lacks_cannot_merge() -> None:
    with pytest.raises(PatchError, match="unable to find api field in struct PodSpec for the json field"):
        merge({"spec": {"foo": {"a": 1}}}, {"spec": {"foo": {"b": 1}}})
