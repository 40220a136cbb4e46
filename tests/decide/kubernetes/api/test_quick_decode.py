"""The quick decoder makes what the thorough one makes, or leaves the body to it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.kubernetes.api.encoding.body import BodyError, parse_json
from tonnage.decide.kubernetes.api.encoding.decode import decode
from tonnage.decide.kubernetes.api.encoding.quick_decode import QuickDecoder
from tonnage.model.json import JsonValue
from tonnage.wire.schema import load_schema

POD = "core/v1.Pod"


def recorded() -> list[tuple[str, JsonValue]]:
    """Type and body of every recorded request that holds an object."""
    rows: list[dict[str, Any]] = json.loads(
        gzip.decompress(Path(__file__).with_name("recorded.json.gz").read_bytes())
    )
    found: list[tuple[str, JsonValue]] = []
    for entry in rows:
        request = entry["request"]
        row = load_schema().kind(
            request.get("group", ""), request.get("version", ""), request.get("kind", "")
        )
        if row is None or "body" not in request:
            continue
        try:
            found.append((row.type, parse_json(request["body"].encode())))
        except BodyError:
            continue
    return found


def thorough(type_name: str, body: JsonValue) -> str | None:
    """What `decode` makes, in its order, where it finds nothing wrong."""
    try:
        decoded = decode(load_schema(), type_name, body, stored=True)
    except BodyError:
        return None
    return None if decoded.unknown else json.dumps(decoded.value)


def test_recorded_bodies_come_out_the_same() -> None:
    quick, handled, good = QuickDecoder(load_schema()), 0, 0
    for type_name, body in recorded():
        wanted, found = thorough(type_name, body), quick.read(type_name, body)
        good += wanted is not None
        if found is not None:
            handled += 1
            assert json.dumps(found) == wanted
    assert handled > 0.8 * good > 0


values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "1Gi"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "spec",
                    "containers",
                    "name",
                    "metadata",
                    "labels",
                    "limits",
                    "hostNetwork",
                    "resources",
                    "x",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(values)
def test_any_body_comes_out_the_same_or_is_left(body: JsonValue) -> None:
    object_read = QuickDecoder(load_schema()).read(POD, body)
    if object_read is not None:
        assert json.dumps(object_read) == thorough(POD, body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param('{"spec": {"nodes": 1}}', id="an unknown field"),
        pytest.param('{"spec": {"nodeName": "a", "nodeName": "b"}}', id="a repeated field"),
        pytest.param('{"metadata": {"labels": {"a": "b", "a": "c"}}}', id="a repeated label"),
        pytest.param('{"spec": {"nodeName": 1}}', id="a number for a string"),
        pytest.param('{"spec": {"containers": [null]}}', id="a null in a list"),
        pytest.param('{"spec": {"overhead": {"cpu": "lots"}}}', id="no quantity"),
    ],
)
def test_what_needs_words_is_left(body: str) -> None:
    assert QuickDecoder(load_schema()).read(POD, parse_json(body.encode())) is None


@pytest.mark.parametrize(
    ("type_name", "body"),
    [
        ("resource/v1.ResourceClaimTemplate", {"spec": {"metadata": {"finalizers": []}}}),
        ("resource/v1.ResourceClaimTemplate", {"spec": {"metadata": {"labels": {}}}}),
        ("apps/v1.Deployment", {"spec": {"template": {"metadata": {"finalizers": []}}}}),
        ("autoscaling/v2.HorizontalPodAutoscaler", {"spec": {"behavior": {"scaleUp": {"policies": []}}}}),
    ],
    ids=str,
)
def test_what_counts_even_empty_is_left_to_the_thorough_one(type_name: str, body: JsonValue) -> None:
    thorough = decode(load_schema(), type_name, body, stored=True).value
    quick = QuickDecoder(load_schema()).read(type_name, body)
    assert quick in (None, thorough)
    assert (": []" in str(thorough)) is (": []" in str(body) and "Deployment" not in type_name)
