"""Recorded answers of the genuine API server's libraries (v1.35.8) against ours; see `recorder/README.md`."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tonnage.decide.kubernetes.api.custom.structural import schema_problems
from tonnage.decide.kubernetes.api.custom.validation import validate_custom
from tonnage.decide.kubernetes.api.custom.values import prune, with_defaults
from tonnage.decide.kubernetes.api.defaults.apply import apply_defaults
from tonnage.decide.kubernetes.api.encoding.body import parse_json
from tonnage.decide.kubernetes.api.encoding.decode import decode
from tonnage.decide.kubernetes.api.encoding.protobuf import decode_envelope
from tonnage.decide.kubernetes.api.field_selectors import parse_fields
from tonnage.decide.kubernetes.api.patches.json_patches import PatchError, json_patch
from tonnage.decide.kubernetes.api.patches.strategic_merge import strategic_merge
from tonnage.decide.kubernetes.api.problems import invalid_status
from tonnage.decide.kubernetes.api.selectors import matches_labels, parse_labels
from tonnage.decide.kubernetes.api.validate import validate_create
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping, text
from tonnage.model.kubernetes.quantity import canonical_quantity, round_up_milli
from tonnage.wire.schema import KindRow, load_schema

Request = dict[str, Any]
Answer = dict[str, Any]


@cache
def recorded() -> list[dict[str, Any]]:
    """All requests with their answers."""
    document: list[dict[str, Any]] = json.loads(
        gzip.decompress(Path(__file__).with_name("recorded.json.gz").read_bytes())
    )
    return document


def row_of(request: Request) -> KindRow:
    row = load_schema().kind(request.get("group", ""), request["version"], request["kind"])
    assert row is not None
    return row


def decoded(request: Request) -> tuple[KindRow, JsonObject, list[str]]:
    row = row_of(request)
    decoding = decode(load_schema(), row.type, parse_json(request["body"].encode()))
    return row, apply_defaults(load_schema(), row, decoding.value), sorted(decoding.unknown)


def same_object(request: Request, answer: Answer) -> None:
    """Decoding and defaults: the stored object, or the refusal."""
    if "status" in answer:
        with pytest.raises(ApiError) as refusal:
            decoded(request)
        assert refusal.value.message == answer["status"]["message"]
        return
    _, mine, unknown = decoded(request)
    theirs = answer["object"]
    if request["kind"] == "DaemonSet":
        # The recorder stops before the create strategy, which counts the template's first generation.
        theirs["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = "1"
        mapping(mine, "metadata", "annotations")["deprecated.daemonset.template.generation"] = "1"
    assert mine == theirs
    assert unknown == sorted(answer["warnings"] or [])


def same_validity(request: Request, answer: Answer) -> None:
    """Creating: good, or the same Status with the same causes (in any order, as Go's maps have none)."""
    row, obj, _ = decoded(request)
    errors = validate_create(row, obj)
    if "status" not in answer:
        assert errors == ()
        return
    theirs = answer["status"]
    mine: Any = invalid_status(row, text(obj, "metadata", "name"), errors)
    mine["details"]["causes"].sort(key=str)
    theirs["details"]["causes"].sort(key=lambda cause: str({**dict.fromkeys(("reason", "message")), **cause}))
    assert mine["details"] == theirs["details"]
    assert (mine["code"], mine["reason"]) == (theirs["code"], theirs["reason"])
    if len(errors) == 1:
        assert mine["message"] == theirs["message"]


def same_strategic(request: Request, answer: Answer) -> None:
    """A strategic merge patch, applied or refused."""
    old, patch = json.loads(request["old"]), json.loads(request["body"])
    if "error" in answer:
        with pytest.raises(PatchError):
            strategic_merge(load_schema(), row_of(request).type, old, patch)
        return
    mine = strategic_merge(load_schema(), row_of(request).type, old, patch)
    assert mine == answer["object"]


def same_json_patch(request: Request, answer: Answer) -> None:
    """A JSON patch, applied or refused."""
    old, patch = json.loads(request["old"]), json.loads(request["body"])
    if "error" in answer:
        with pytest.raises(PatchError):
            json_patch(old, patch)
        return
    assert json_patch(old, patch) == answer["object"]


def same_protobuf(request: Request, answer: Answer) -> None:
    """A protobuf body says what the JSON of the same object says."""
    row = row_of(request)
    mine = decode_envelope(load_schema(), base64.b64decode(answer["bytes"]))
    theirs = decode(load_schema(), row.type, answer["object"]).value
    assert decode(load_schema(), row.type, mine).value == theirs


def same_quantity(request: Request, answer: Answer) -> None:
    """A quantity as it is written back, and as a resource's amount."""
    if "error" in answer:
        with pytest.raises(ValueError) as refusal:  # noqa: PT011 (its whole text is compared)
            canonical_quantity(request["text"])
        assert str(refusal.value) == answer["error"]
        return
    assert canonical_quantity(request["text"]) == answer["text"]
    assert round_up_milli(request["text"]) == answer["rounded"]


def same_labels(request: Request, answer: Answer) -> None:
    """A label selector: whether it matches, or the complaint."""
    if "error" in answer:
        with pytest.raises(ApiError) as refusal:
            parse_labels(request["text"])
        assert refusal.value.message == answer["error"]
        return
    assert matches_labels(parse_labels(request["text"]), json.loads(request["body"])) == answer["match"]


def same_fields(request: Request, answer: Answer) -> None:
    """A field selector: good, or the complaint."""
    if "error" in answer:
        with pytest.raises(ApiError) as refusal:
            parse_fields(row_of(request), request["text"])
        assert refusal.value.message == answer["error"]
        return
    parse_fields(row_of(request), request["text"])


def same_custom(request: Request, answer: Answer) -> None:
    """A custom object against its schema: what is unknown, what is filled in, what is wrong."""
    schema: JsonObject = request["schema"]
    body: JsonValue = json.loads(request["body"])
    assert isinstance(body, dict)
    assert schema_problems(schema, "schema") == ()
    pruned = prune(schema, body)
    filled = with_defaults(schema, pruned.value)
    assert sorted(text.split('"')[1] for text in pruned.unknown) == sorted(answer["unknown"] or [])
    assert filled == answer["object"]
    assert sorted(str(error) for error in validate_custom(schema, filled)) == sorted(answer["errors"])


CHECKS: Final[dict[str, Callable[[Request, Answer], None]]] = {
    "decode": same_object,
    "create": same_validity,
    "smp": same_strategic,
    "jsonpatch": same_json_patch,
    "proto": same_protobuf,
    "quantity": same_quantity,
    "labels": same_labels,
    "fields": same_fields,
    "structural": same_custom,
}


@pytest.mark.parametrize("operation", list(CHECKS))
def test_the_genuine_libraries_answered_the_same(operation: str) -> None:
    pairs = [pair for pair in recorded() if pair["request"]["op"] == operation]
    assert len(pairs) >= 50
    for pair in pairs:
        try:
            CHECKS[operation](pair["request"], pair["answer"])
        except (AssertionError, ApiError, ValueError) as error:
            pytest.fail(f"{json.dumps(pair['request'])[:2000]}\n{error}")
