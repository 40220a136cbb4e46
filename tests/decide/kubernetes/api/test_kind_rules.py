"""What the twin's API server refuses of kinds that are met less often, in a genuine server's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.decide.kubernetes.api.defaults.apply import apply_defaults
from tonnage.decide.kubernetes.api.encoding.decode import decode
from tonnage.decide.kubernetes.api.patches.json_patches import merge_patch
from tonnage.decide.kubernetes.api.validate import validate_create, validate_update
from tonnage.model.json import JsonObject
from tonnage.wire.schema import KindRow, load_schema

RULES: list[dict[str, Any]] = yaml.load(
    (Path(__file__).parents[3] / "data/kind-rules.yaml").read_text(), yaml.CSafeLoader
)


def stored(row: KindRow, body: Any) -> JsonObject:
    schema = load_schema()
    return apply_defaults(schema, row, decode(schema, row.type, body, stored=True).value)


@pytest.mark.parametrize("rule", RULES, ids=[rule["rule"] for rule in RULES])
def test_an_object_is_refused_in_the_words_of_a_genuine_kubernetes(rule: dict[str, Any]) -> None:
    group, _, version = rule["object"]["apiVersion"].rpartition("/")
    row = load_schema().kind(group, version, rule["object"]["kind"])
    assert row is not None
    obj = stored(row, rule["object"])
    if "then" not in rule:
        errors = validate_create(row, obj)
    else:
        assert validate_create(row, obj) == ()
        obj["metadata"] |= {"uid": "u", "resourceVersion": "1"}  # type: ignore[operator]
        changed = stored(row, merge_patch(obj, rule["then"]))
        errors = validate_update(row, changed, obj, "status" if rule.get("status") else "")
    assert [str(error) for error in errors] == rule["refused"]
