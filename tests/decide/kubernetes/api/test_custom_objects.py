"""Objects of custom kinds: pruning, defaults, validation and the seam for the schema's own rules."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.decide.kubernetes.api.custom.changes import schema_problems_of
from tonnage.decide.kubernetes.api.custom.rules import rule_problems
from tonnage.decide.kubernetes.api.custom.structural import schema_problems
from tonnage.decide.kubernetes.api.custom.validation import validate_custom
from tonnage.decide.kubernetes.api.custom.values import decode_custom, prune, with_defaults
from tonnage.decide.kubernetes.api.encoding.body import BodyError, parse_json
from tonnage.decide.kubernetes.api.validation.custom.schemas import custom_schema
from tonnage.model.json import JsonObject, JsonValue
from tonnage.wire.schema import load_schema

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["replicas"],
            "properties": {
                "replicas": {"type": "integer", "minimum": 1, "maximum": 9},
                "mode": {"type": "string", "enum": ["mig", "mps"], "default": "mig"},
                "name": {"type": "string", "minLength": 2, "pattern": "^g"},
                "port": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "tiers": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                },
            },
        }
    },
}


LISTED: JsonObject = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "nullable": True},
}


def custom(**spec: Any) -> JsonObject:
    return {
        "apiVersion": "tonnage.dev/v1",
        "kind": "Fleet",
        "metadata": {"name": "f"},
        "spec": {"replicas": 1, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        pytest.param({}, [], id="good"),
        pytest.param(
            {"replicas": "2"},
            [
                (
                    'spec.replicas: Invalid value: "string": '
                    'spec.replicas in body must be of type integer: "string"'
                )
            ],
            id="a string for a number",
        ),
        pytest.param(
            {"replicas": 0},
            ["spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1"],
            id="too small",
        ),
        pytest.param(
            {"mode": "x"},
            ['spec.mode: Unsupported value: "x": supported values: "mig", "mps"'],
            id="no such mode",
        ),
        pytest.param(
            {"name": "g"},
            ['spec.name: Invalid value: "g": spec.name in body should be at least 2 chars long'],
            id="too short",
        ),
        pytest.param(
            {"name": "xx"},
            ["spec.name: Invalid value: \"xx\": spec.name in body should match '^g'"],
            id="no match",
        ),
        pytest.param(
            {"port": 1.5},
            [
                (
                    'spec.port: Invalid value: "number": '
                    'spec.port in body must be of type integer,string: "number"'
                )
            ],
            id="neither integer nor string",
        ),
        pytest.param(
            {"tiers": [{"name": "a"}, {"name": "a"}]},
            ['spec.tiers[1]: Duplicate value: {"name":"a"}'],
            id="a key that stands twice",
        ),
    ],
)
def test_values_are_refused_in_the_servers_words(spec: dict[str, Any], errors: list[str]) -> None:
    assert [str(error) for error in validate_custom(SCHEMA, custom(**spec))] == errors


@pytest.mark.parametrize(
    ("field", "value", "errors"),
    [
        ({"type": "number", "multipleOf": 0.25, "maximum": 1.5}, 1.25, []),
        ({"type": "number", "maximum": 1.5}, 2, ["less than or equal to 1"]),
        ({"type": "number", "multipleOf": 0.25}, 1, ["must be positive: 0"]),
        ({"type": "number", "multipleOf": 0.25}, 0.6, ["a multiple of 0.25"]),
        ({"type": "integer"}, 1e20, ['type integer: "number"']),
        ({"type": "integer", "minimum": 3, "maximum": 1}, 2, ["or equal to 3", "or equal to 1"]),
        ({"type": "string", "pattern": "^[[:alpha:]]+$"}, "a\n", ["'^[[:alpha:]]+$'"]),
        ({"type": "string", "enum": ["bb"], "minLength": 2}, "b", ["2 chars long", '"bb"']),
        ({"type": "string", "allOf": [{"minLength": 2}]}, "b", ["2 chars long", "(allOf). None validated"]),
        ({"type": "string", "allOf": [{"minLength": 2}, {}]}, "b", ["2 chars long", "(allOf)"]),
        (LISTED, [None, {"k": 1}], []),
    ],
    ids=str,
)
def test_values_are_held_against_their_schema(field: JsonObject, value: Any, errors: list[str]) -> None:
    schema: JsonObject = {"type": "object", "properties": {"x": field}}
    found = [str(error) for error in validate_custom(schema, {"x": value})]
    assert [text.endswith(end) for text, end in zip(found, errors, strict=True)] == [True] * len(errors)


def test_numbers_are_read_as_they_come_back_from_the_store() -> None:
    body = custom(free={"a": 2.0, "b": 2**63, "c": 1.5, "d": True})
    decoded: Any = decode_custom(load_schema(), SCHEMA, body).value
    free = decoded["spec"]["free"]
    assert free == {"a": 2, "b": 2.0**63, "c": 1.5, "d": True}
    assert [type(amount) for amount in free.values()] == [int, float, float, bool]


STATUS: JsonObject = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "required": ["a"]},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}},
    },
}


@pytest.mark.parametrize(
    ("status", "obj", "errors"),
    [
        (True, {"spec": {}, "status": {"n": 1}}, []),
        (True, {"spec": {}, "status": {"n": "x"}}, ['status.n: Invalid value: "string": n in body must be']),
        (True, {"status": "x"}, ['status: Invalid value: "string":  in body must be of type object']),
        (True, {}, []),
        (False, {"spec": {}, "status": {}}, ["spec.a: Required value"]),
    ],
    ids=str,
)
def test_of_a_write_of_status_only_that_is_checked(status: bool, obj: JsonObject, errors: list[str]) -> None:
    found = [str(problem) for problem in schema_problems_of(STATUS, obj, {"spec": {"b": 1}}, status=status)]
    assert [text[: len(start)] for text, start in zip(found, errors, strict=True)] == errors


def test_what_is_required_must_be_there() -> None:
    obj: JsonObject = {"spec": {}}
    assert [str(error) for error in validate_custom(SCHEMA, obj)] == ["spec.replicas: Required value"]


def test_unknown_fields_are_pruned_but_where_they_are_kept() -> None:
    pruned = prune(SCHEMA, custom(foo=1, free={"a": {"b": 1}}))
    assert pruned.unknown == ('unknown field "spec.foo"',)
    assert pruned.value["spec"] == {"replicas": 1, "free": {"a": {"b": 1}}}


def test_decoding_fills_in_defaults_and_reads_metadata_strictly() -> None:
    decoded: Any = decode_custom(load_schema(), SCHEMA, custom()).value
    assert decoded["spec"]["mode"] == "mig"
    with pytest.raises(BodyError, match="cannot unmarshal number into Go struct field"):
        decode_custom(load_schema(), SCHEMA, {**custom(), "metadata": {"labels": {"a": 1}}})


def test_strict_decoding_names_unknown_and_double_fields() -> None:
    body = parse_json(
        b'{"apiVersion":"tonnage.dev/v1","kind":"Fleet","spec":{"replicas":1,"replicas":2,"x":1}}'
    )
    assert isinstance(body, dict)
    with pytest.raises(BodyError) as refusal:
        decode_custom(load_schema(), SCHEMA, body, strict=True)
    assert refusal.value.detail == (
        'strict decoding error: duplicate field "spec.replicas", unknown field "spec.x"'
    )


def test_a_null_gives_way_to_the_default() -> None:
    filled: Any = with_defaults(SCHEMA, custom(mode=None))
    assert filled["spec"]["mode"] == "mig"


def test_the_rules_of_a_schema_are_asked_at_every_level() -> None:
    inner: JsonObject = {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'a'"}]}
    held: JsonObject = {"type": "array", "items": inner}
    schema: JsonObject = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"x": held}}},
    }
    errors, stayed = rule_problems(schema, {"spec": {"x": ["b", "a"]}}, None)
    assert [str(error) for error in errors] == ["spec.x[1]: Invalid value: \"a\": failed rule: self != 'a'"]
    assert stayed == []


@pytest.mark.parametrize(
    ("rule", "stays"),
    [("self != 'b'", True), ("int(self) > 0", False), ("self == oldSelf && self != 'b'", False)],
)
def test_a_broken_rule_may_stay_broken_but_not_fail(rule: str, stays: bool) -> None:
    field: JsonObject = {"type": "string", "x-kubernetes-validations": [{"rule": rule}]}
    schema: JsonObject = {"type": "object", "properties": {"x": field}}
    errors, stayed = rule_problems(schema, {"x": "b"}, {"x": "b"})
    assert (len(errors), len(stayed)) == ((0, 1) if stays else (1, 0))


@pytest.mark.parametrize(
    ("listed", "new", "old", "same"),
    [
        ({"x-kubernetes-list-type": "set"}, ["a", "b"], ["b", "a"], True),
        ({"x-kubernetes-list-type": "set"}, ["a", "b"], ["b", "c"], False),
        ({}, ["a", "b"], ["b", "a"], False),
        (LISTED, [{"k": 1, "v": [2]}, {"k": 2}], [{"k": 2}, {"k": 1, "v": [2]}], True),
        (LISTED, [{"k": 1, "v": [2]}, {"k": 2}], [{"k": 2}, {"k": 1, "v": [3]}], False),
    ],
)
def test_what_has_no_order_is_compared_without_one(
    listed: JsonObject, new: list[JsonValue], old: list[JsonValue], same: bool
) -> None:
    rules: JsonValue = [{"rule": "self == oldSelf"}]
    schema: JsonObject = {"type": "object", "properties": {"x": {"type": "array", **listed}}}
    errors, _ = rule_problems({**schema, "x-kubernetes-validations": rules}, {"x": new}, {"x": old})
    assert (errors == ()) is same


def test_a_rule_that_goes_on_for_long_is_the_last() -> None:
    rules: JsonValue = [{"rule": "self.all(a, self.all(b, a + b >= 0))"}, {"rule": "false"}]
    field: JsonObject = {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": rules}
    schema: JsonObject = {"type": "object", "properties": {"x": field, "y": field}}
    many = list[JsonValue](range(200))
    errors, _ = rule_problems(schema, {"x": many, "y": many}, None)
    (only,) = map(str, errors)
    assert only.endswith("due to call cost exceeds limit for rule: self.all(a, self.all(b, a + b >= 0))")
    assert "'operation cancelled: actual cost limit exceeded': no further validation rules" in only


def test_a_good_schema_has_no_problems() -> None:
    assert schema_problems(SCHEMA, "schema") == ()


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        pytest.param({}, "schema.type: Required value: must not be empty at the root", id="no type"),
        pytest.param(
            {"type": "string"},
            'schema.type: Invalid value: "string": must be object at the root',
            id="no object",
        ),
        pytest.param(
            {"type": "object", "anyOf": [{"type": "object"}]},
            "schema.anyOf[0].type: Forbidden: must be empty to be structural",
            id="a type within logic",
        ),
        pytest.param(
            {"type": "object", "allOf": [{"properties": {"a": {"minimum": 1}}}]},
            "schema.properties[a]: Required value: because it is defined in schema.allOf[0].properties[a]",
            id="a field known to logic alone",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "string", "pattern": "["}}},
            'schema.properties[a].pattern: Invalid value: "[": must be a valid regular expression',
            id="a pattern that is none",
        ),
    ],
)
def test_schemas_that_are_not_structural(schema: JsonObject, problem: str) -> None:
    assert any(str(error).startswith(problem) for error in schema_problems(schema, "schema"))


def test_a_schema_nested_without_end_is_refused_and_not_followed() -> None:
    schema: JsonObject = {"type": "object"}
    for _ in range(300):
        schema = {"type": "object", "properties": {"a": schema}}
    assert any("must not be nested deeper" in str(error) for error in schema_problems(schema, "schema"))


def test_a_schema_that_was_judged_and_changed_in_place_is_judged_anew() -> None:
    schema: JsonObject = {"type": "object", "properties": {"spec": {"type": "object"}}}
    assert not list(custom_schema(schema, "spec.validation", status=False))
    schema["nullable"] = True
    for _ in range(2):
        (error,) = custom_schema(schema, "spec.validation", status=False)
        assert (error.field, error.detail) == (
            "spec.validation.nullable",
            "nullable cannot be true at the root",
        )
