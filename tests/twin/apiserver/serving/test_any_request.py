"""Whatever JSON a client writes or patches with, it is taken or refused, and nothing breaks (KUB-2)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.api import OBJECTS, PLACES, Ask, server
from tonnage.model.json import JsonObject, JsonValue

KEYS = st.sampled_from(
    [
        "metadata",
        "spec",
        "data",
        "name",
        "labels",
        "containers",
        "template",
        "replicas",
        "selector",
        "ports",
        "finalizers",
        "ownerReferences",
        "managedFields",
        "words",
        "map",
        "size",
        "status",
        "conditions",
        "matchLabels",
        "strategy",
        "type",
        "a",
        "env",
        "image",
        "resources",
        "limits",
        "nvidia.com/gpu",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
    ]
)
WORDS = st.sampled_from(("", "a", "d", "replace", "delete", "merge", "1Gi", "-1", "e3", "\ud7ff\U0001f600\0"))
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False) | WORDS
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
POINTERS = st.lists(KEYS.map(lambda key: key.replace("/", "~1")) | st.sampled_from("01-"), max_size=5).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(("add", "remove", "replace", "move", "copy", "test", "x")), "path": POINTERS},
        optional={"from": POINTERS, "value": VALUES},
    ),
    max_size=4,
)
UNMERGED = (
    b"$",
    b" merge key",
    b"expected a ",
    b"merging lists",
    b"list element types",
    b"unknown patch type",
)
"""What refusals say of directives, of lists without names, and of values of a wrong type."""


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with server() as ask:
        yield ask


@settings(max_examples=30, deadline=None)
@given(place=st.sampled_from(PLACES), body=st.dictionaries(KEYS, VALUES, max_size=4), yaml=st.booleans())
def test_any_object_is_taken_or_refused(ask: Ask, place: str, body: JsonObject, yaml: bool) -> None:
    content_type = "application/yaml" if yaml else "application/json"
    code, _ = ask("POST", place, msgspec.json.encode(body), content_type, b"dryRun=All")
    assert code in (200, 201, 400, 403, 404, 409, 422), body


@settings(max_examples=30, deadline=None)
@given(
    place=st.sampled_from(OBJECTS),
    kind=st.sampled_from(("merge", "strategic-merge")),
    patch=st.dictionaries(KEYS, VALUES, max_size=4),
)
def test_any_merging_patch_is_taken_or_refused(ask: Ask, place: str, kind: str, patch: JsonObject) -> None:
    content_type = f"application/{kind}-patch+json"
    code, said = ask("PATCH", place, msgspec.json.encode(patch), content_type, b"dryRun=All")
    # A strategic patch that cannot be merged is told 500, as by a genuine server.
    unmerged = kind != "merge" and any(words in said for words in UNMERGED)
    assert code in (200, 400, 404, 409, 415, 422) or (code == 500 and unmerged), said


@settings(max_examples=30, deadline=None)
@given(place=st.sampled_from(OBJECTS), patch=OPERATIONS)
def test_any_json_patch_of_the_server_is_taken_or_refused(ask: Ask, place: str, patch: JsonValue) -> None:
    body = msgspec.json.encode(patch)
    code, _ = ask("PATCH", place, body, "application/json-patch+json", b"dryRun=All")
    assert code in (200, 400, 404, 409, 422), patch


@settings(max_examples=30, deadline=None)
@given(place=st.sampled_from(OBJECTS), config=st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_configuration_is_applied_or_refused(ask: Ask, place: str, config: JsonObject) -> None:
    group = place.split("/")
    version = "/".join(group[2:4]) if group[1] == "apis" else group[2]
    for names in (
        {},
        {"apiVersion": version, "kind": {"m": "ConfigMap", "t": "Thing"}.get(group[-1], "Deployment")},
    ):
        body = msgspec.json.encode({**config, **names})
        query = b"dryRun=All&fieldManager=f&force=1"
        code, said = ask("PATCH", place, body, "application/apply-patch+yaml", query)
        # What no schema fits is told 500, as by a genuine server.
        assert code in (200, 201, 400, 404, 409, 422) or b"create typed" in said, said
