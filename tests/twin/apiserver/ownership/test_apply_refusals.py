"""Configurations that fit their type and still make no object, and objects whose fields nobody can own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


async def _apply(running: Any, path: str, config: dict[str, Any]) -> tuple[int, str]:
    # Media types of patches are no JSON to the client.
    pairs = [("content-type", "application/apply-patch+yaml")]
    body = msgspec.json.encode(config)
    answer = await running.http("PATCH", f"{path}?fieldManager=m", body, pairs=pairs)
    return answer.code, answer.json.get("message", "")


@pytest.mark.parametrize(
    ("path", "config", "shown", "wrong"),
    [
        (
            "/api/v1/namespaces/default/resourcequotas/x",
            {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"cpu": "10x"}}},
            "/v1, Kind=ResourceQuota",
            _QUANTITY,
        ),
        (
            "/api/v1/namespaces/default/secrets/x",
            {"apiVersion": "v1", "kind": "Secret", "data": {"a": "!"}},
            "/v1, Kind=Secret",
            "error decoding from json: illegal base64 data at input byte 0",
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases/x",
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"renewTime": "x"}},
            "coordination.k8s.io/v1, Kind=Lease",
            'parsing time "x" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "x" as "2006"',
        ),
    ],
    ids=lambda value: "",
)
async def test_values_that_cannot_be_converted(
    running: Any, path: str, config: dict[str, Any], shown: str, wrong: str
) -> None:
    said = f"to proper version: unable to convert unstructured object to {shown}: {wrong}"
    named = {**config, "metadata": {"name": "x", "namespace": "default"}}
    expected = (500, f"failed to convert new object (default/x; {shown}) {said}")
    assert await _apply(running, path, named) == expected


async def test_a_list_without_its_keys_takes_all_owners_away(running: Any) -> None:
    body = {"metadata": {"name": "x"}, "secrets": [{"name": "a"}, {}]}
    answer = await running.http("POST", _ACCOUNTS, body)
    assert "managedFields" not in answer.json["metadata"]
    config = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "x"}}
    known = "failed to convert new object (default/x; /v1, Kind=ServiceAccount) to smd typed: .secrets: "
    missing = (
        'element 1: associative list with keys has an element that omits all key fields ["name"] '
        "(and doesn't have default values for any key fields)"
    )
    expected = (500, f"failed to create manager for existing fields: {known}{missing}")
    assert await _apply(running, f"{_ACCOUNTS}/x", config) == expected


@pytest.mark.parametrize(("rules", "owned"), [([], True), (None, False)])
async def test_an_empty_list_that_is_always_written_belongs_to_its_writer(
    running: Any, rules: Any, owned: bool
) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    body = {"metadata": {"name": "x", "labels": {"a": "b"}}, "rules": rules}
    answer = await running.http("POST", roles, body)
    (entry,) = answer.json["metadata"]["managedFields"]
    assert (answer.json["rules"], "f:rules" in entry["fieldsV1"]) == (None, owned)
