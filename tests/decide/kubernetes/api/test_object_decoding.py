"""Bodies become objects: wrong types and unknown fields in the server's words, values as they are stored."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.kubernetes.api.defaults.apply import apply_defaults
from tonnage.decide.kubernetes.api.encoding.body import DEEPEST, BodyError, Repeated, parse_json
from tonnage.decide.kubernetes.api.encoding.decode import decode
from tonnage.decide.kubernetes.api.encoding.protobuf import decode_envelope
from tonnage.decide.kubernetes.api.encoding.protobuf_writer import encode_envelope
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.quantity import (
    canonical_quantity,
    integer_value,
    parse_quantity,
    round_up_milli,
)
from tonnage.wire.schema import KindRow, load_schema


def pod(**container: Any) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", **container}]}}


def row(kind: str) -> KindRow:
    kind_type = load_schema().kind("", "v1", kind)
    assert kind_type is not None
    return kind_type


@pytest.mark.parametrize(
    ("container", "text"),
    [
        pytest.param(
            {"image": 3},
            "json: cannot unmarshal number into Go struct field "
            "Container.spec.containers.image of type string",
            id="a number for a string",
        ),
        pytest.param(
            {"resources": {"limits": {"nvidia.com/gpu": "lots"}}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="no quantity",
        ),
        pytest.param(
            {"ports": [{"containerPort": "80"}]},
            "json: cannot unmarshal string into Go struct field "
            "ContainerPort.spec.containers.ports.containerPort of type int32",
            id="a string for a number",
        ),
        pytest.param(
            {"imagePullPolicy": []},
            "json: cannot unmarshal array into Go struct field "
            "Container.spec.containers.imagePullPolicy of type v1.PullPolicy",
            id="a list for a named string",
        ),
        pytest.param(
            {"env": {"A": "b"}},
            "json: cannot unmarshal object into Go struct field "
            "Container.spec.containers.env of type []v1.EnvVar",
            id="a map for a list",
        ),
    ],
)
def test_wrong_types_are_refused_in_the_servers_words(container: dict[str, Any], text: str) -> None:
    with pytest.raises(BodyError) as refusal:
        decode(load_schema(), "core/v1.Pod", pod(**container))
    assert refusal.value.message == f'Pod in version "v1" cannot be handled as a Pod: {text}'
    assert (refusal.value.code, refusal.value.reason) == (400, "BadRequest")


def test_strict_decoding_names_every_unknown_and_double_field() -> None:
    body = parse_json(
        b'{"apiVersion":"v1","kind":"Pod",'
        b'"spec":{"containers":[{"name":"c","resourcess":{},"image":"a","image":"b"}]},'
        b'"metadata":{"labels":{"x":"1","x":"2"}}}'
    )
    with pytest.raises(BodyError) as refusal:
        decode(load_schema(), "core/v1.Pod", body, strict=True)
    assert refusal.value.message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "spec.containers[0].resourcess", duplicate field "spec.containers[0].image", '
        'duplicate field "metadata.labels.x"'
    )


def test_without_strictness_unknown_fields_are_dropped_and_named() -> None:
    decoded = decode(load_schema(), "core/v1.Pod", pod(foo=1, image="x"))
    assert decoded.unknown == ('unknown field "spec.containers[0].foo"',)
    assert decoded.value["spec"] == {"containers": [{"name": "c", "image": "x", "resources": {}}]}


def test_values_come_out_as_the_server_stores_them() -> None:
    decoded: Any = decode(
        load_schema(),
        "core/v1.Pod",
        {
            "metadata": {"creationTimestamp": "2026-01-01T02:00:00+02:00", "labels": {}},
            "spec": {
                "hostNetwork": False,
                "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "1000m"}}}],
            },
        },
    ).value
    assert decoded["metadata"] == {"creationTimestamp": "2026-01-01T00:00:00Z"}
    assert "hostNetwork" not in decoded["spec"]
    assert decoded["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", "nvidia.com/gpu": "1"}
    assert decoded["status"] == {}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="cut off"),
        pytest.param(b"{'a': 1}", id="single quotes"),
        pytest.param(b'{"a": NaN}', id="not a number"),
        pytest.param(b"\xff{}", id="not UTF-8 from the start"),
        pytest.param(b"[" * 100_000, id="a tower of brackets"),
        pytest.param(b'{"a":' * (DEEPEST + 5) + b"1" + b"}" * (DEEPEST + 5), id="nested too deeply"),
    ],
)
def test_what_is_no_json_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(BodyError):
        parse_json(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b'{"a": "x\xff"}', {"a": "x\ufffd"}, id="a byte that is no UTF-8"),
        pytest.param(b'{"a": "\\ud800x"}', {"a": "\ufffdx"}, id="the first half of a pair"),
        pytest.param(b'["\\uDFFF"]', ["\ufffd"], id="the second half"),
        pytest.param(b'["\\ud83d\\ude00"]', ["\U0001f600"], id="a pair"),
        pytest.param(b'{"b": {"\\ud800": 1}}', {"b": {"\ufffd": 1}}, id="half a pair in a key"),
    ],
)
def test_what_is_no_character_becomes_the_one_for_that(body: bytes, expected: JsonValue) -> None:
    assert parse_json(body) == expected


def test_repeated_keys_are_told_in_characters() -> None:
    value = parse_json(b'{"\\ud800": 1, "\\ud800": 2}')
    assert isinstance(value, Repeated)
    assert (value, value.repeated) == ({"\ufffd": 2}, ("\ufffd",))


pieces = st.sampled_from(
    (
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b'"',
        b'"a"',
        b"\\ud800",
        b"\\udc00",
        b"\xff",
        b"\xed\xa0\x80",
        b"1e9",
        b"-0",
    )
)


@given(st.lists(pieces | st.binary(max_size=2), max_size=12).map(b"".join))
def test_any_bytes_are_text_or_are_refused(body: bytes) -> None:
    try:
        value = parse_json(body)
    except BodyError as error:
        str(error).encode()
        return
    assert msgspec.json.decode(msgspec.json.encode(value)) == value


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "containers", "name", "metadata", "labels", "x"]), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(values)
def test_any_body_decodes_or_is_refused(body: JsonValue) -> None:
    try:
        decoded = decode(load_schema(), "core/v1.Pod", body)
    except BodyError:
        return
    again = decode(load_schema(), "core/v1.Pod", decoded.value)
    assert again.value == decoded.value
    assert again.unknown == ()
    defaulted = apply_defaults(load_schema(), row("Pod"), decoded.value)
    assert apply_defaults(load_schema(), row("Pod"), defaulted) == defaulted


@given(st.binary(max_size=100))
def test_any_protobuf_body_decodes_or_is_refused(body: bytes) -> None:
    pod_of = b"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12" + bytes([len(body)]) + body
    for data in (body, b"k8s\x00" + body, pod_of):
        with suppress(BodyError):
            assert decode_envelope(load_schema(), data)["kind"] == "Pod"


NUMBERS = st.from_regex(r"[+-]?([0-9]{1,9}|[0-9]{1,6}\.[0-9]{1,5})", fullmatch=True)
SUFFIXES = st.sampled_from(["", "n", "u", "m", "k", "Ki", "M", "Mi", "G", "Gi", "T", "Ti", "e3", "E2", "e-2"])


@given(NUMBERS, SUFFIXES)
def test_writing_a_quantity_keeps_its_value(number: str, suffix: str) -> None:
    text = number + suffix
    written = canonical_quantity(text)
    assert canonical_quantity(written) == written
    exact = parse_quantity(text)
    assert parse_quantity(written) == exact
    rounded = parse_quantity(round_up_milli(text))
    assert (rounded * 1000).denominator == 1
    assert abs(exact) <= abs(rounded) < abs(exact) + parse_quantity("1m")
    assert exact <= integer_value(text) < exact + 1


@pytest.mark.parametrize("text", ["", "-", "k", "1K", "abc", "1 ", "1.2.3", "1Zi", "9" * 65])
def test_what_is_no_quantity_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="quantit"):
        canonical_quantity(text)


def test_defaults_leave_the_given_object_alone() -> None:
    given_object: Any = decode(load_schema(), "core/v1.Pod", pod(image="x")).value
    before = json.dumps(given_object)
    apply_defaults(load_schema(), row("Pod"), given_object)
    assert json.dumps(given_object) == before


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"type": "string"}},
        {"items": [{"type": "string"}, {"type": "integer"}]},
        {"additionalProperties": True, "additionalItems": False},
        {"additionalProperties": {"type": "object", "properties": {"a": {"items": {"type": "string"}}}}},
        {"dependencies": {"a": ["b", "c"], "d": {"type": "object"}}},
        {"default": {"a": [1, None]}, "enum": ["x", 2, None], "minimum": 0.5},
    ],
)
def test_what_may_stand_for_a_schema_is_read_from_protobuf(schema: JsonObject) -> None:
    """Clients that are made for protobuf send definitions in it."""
    version: JsonObject = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    definition: JsonObject = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"group": "example.com", "versions": [version]},
    }
    read = decode_envelope(load_schema(), encode_envelope(definition))
    kind = "apiextensions/v1.CustomResourceDefinition"
    found, wanted = (decode(load_schema(), kind, obj).value["spec"] for obj in (read, definition))
    assert found == wanted


def test_moments_of_the_first_year_come_back_from_protobuf() -> None:
    body: Any = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "spec": {"acquireTime": "0001-01-01T00:00:02.000000Z"},
    }
    assert decode_envelope(load_schema(), encode_envelope(body))["spec"] == body["spec"]
