"""New objects of the scenes of rules are refused in the words of a genuine Kubernetes, without a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from support.first_hour import RULES, Answer, Scene, comparable, recorded, scenes
from tonnage.decide.kubernetes.api.defaults.apply import apply_defaults
from tonnage.decide.kubernetes.api.encoding.decode import decode
from tonnage.decide.kubernetes.api.problems import invalid_status
from tonnage.decide.kubernetes.api.strategies.pods import complete_pod
from tonnage.decide.kubernetes.api.validate import validate_create
from tonnage.model.json_access import put
from tonnage.wire.schema import load_schema

_COMPLETED: frozenset[str] = frozenset({"Job", "Service", "TokenRequest"})
"""Kinds that the server completes, converts or refuses before it looks at their fields."""


def _refused() -> Iterator[tuple[str, Scene, Answer]]:
    answers = recorded(RULES)
    for scene in scenes(RULES):
        for command, answer in answers[scene.name]:
            if command.startswith("POST ") and answer.code == 422:
                yield command, scene, answer


def _body(command: str, scene: Scene) -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(scene.files[command.split("< ")[1]], yaml.CSafeLoader)
    return document


_CASES = [row for row in _refused() if _body(row[0], row[1])["kind"] not in _COMPLETED]


@pytest.mark.parametrize(("command", "scene", "answer"), _CASES, ids=[f"{s.name} {c}" for c, s, _ in _CASES])
def test_a_new_object_is_refused_as_by_a_genuine_kubernetes(
    command: str, scene: Scene, answer: Answer
) -> None:
    body = _body(command, scene)
    group, _, version = body["apiVersion"].rpartition("/")
    schema = load_schema()
    row = schema.kind(group, version, body["kind"])
    assert row is not None
    if row.namespaced:
        body["metadata"].setdefault("namespace", "lab")
    obj = apply_defaults(schema, row, decode(schema, row.type, body).value)
    if row.kind == "Pod":
        put(obj, "default", "spec", "serviceAccountName")
        assert all(complete_pod(obj))
    said = invalid_status(row, body["metadata"]["name"], validate_create(row, obj))["message"]
    assert comparable(str(said)) == comparable(yaml.load(answer.out, yaml.CSafeLoader)["message"])


def test_there_are_refusals_to_compare() -> None:
    assert len(_CASES) > 30
