"""Unmodified kubectl with kinds of one's own: definition, instances, columns, status, end."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.model.json import JsonObject

pytestmark = pytest.mark.long

DEFINITION: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "tiers.tonnage.dev"},
    "spec": {
        "group": "tonnage.dev",
        "names": {"kind": "Tier", "plural": "tiers", "singular": "tier", "shortNames": ["tr"]},
        "scope": "Cluster",
        "versions": [
            {
                "name": version,
                "served": True,
                "storage": version == "v1",
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {
                        "name": "Ready",
                        "type": "string",
                        "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
                    },
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "description": "What is wanted.",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1, "description": "How many."},
                                    "mode": {"type": "string", "default": "fast"},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
            for version in ("v1", "v1alpha1")
        ],
    },
}
TIER = {"apiVersion": "tonnage.dev/v1", "kind": "Tier", "metadata": {"name": "gold"}, "spec": {"size": 3}}


def _json(obj: Any) -> str:
    import json

    return json.dumps(obj)


@pytest.fixture
async def defined(kubectl: Any) -> Any:
    await kubectl("apply -f -", _json(DEFINITION))
    await kubectl("wait --for=condition=Established crd/tiers.tonnage.dev --timeout=30s")
    return kubectl


async def test_instances_have_columns_defaults_and_versions(defined: Any) -> None:
    await defined("apply -f -", _json(TIER))
    answer = await defined("get tr")
    assert answer.out.splitlines()[0].split() == ["NAME", "SIZE", "READY"]
    assert answer.rows == [["gold", "3"]]
    assert (await defined("get tiers -o wide")).out.splitlines()[0].split() == [
        "NAME",
        "SIZE",
        "READY",
        "AGE",
    ]
    old = (await defined("get tiers.v1alpha1.tonnage.dev gold -o json")).json
    assert (old["apiVersion"], old["spec"]) == ("tonnage.dev/v1alpha1", {"mode": "fast", "size": 3})


async def test_status_and_scale_are_subresources(defined: Any) -> None:
    await defined("apply -f -", _json({**TIER, "status": {"ignored": 1}}))
    assert "status" not in (await defined("get tier gold -o json")).json
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "spec": {"size": 9}}
    await defined(["patch", "tier", "gold", "--subresource=status", "--type=merge", "-p", _json(ready)])
    assert (await defined("get tier gold")).rows == [["gold", "3", "True"]]
    await defined("scale tier gold --replicas=5")
    tier = (await defined("get tier gold -o json")).json
    assert (tier["spec"]["size"], tier["metadata"]["generation"]) == (5, 2)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param(
            {"size": "big"}, 'spec.size in body must be of type integer: "string"', id="a wrong type"
        ),
        pytest.param({"size": 0}, "spec.size in body should be greater than or equal to 1", id="too small"),
        pytest.param({}, "spec.size: Required value", id="a field that is missing"),
        pytest.param({"size": 1, "sise": 2}, 'unknown field "spec.sise"', id="a misspelt field"),
    ],
)
async def test_the_schema_is_held(defined: Any, spec: Any, words: str) -> None:
    answer = await defined.attempt("apply -f -", _json({**TIER, "spec": spec}))
    assert answer.code == 1
    assert words in answer.err


async def test_explain_and_api_resources_know_the_kind(defined: Any) -> None:
    assert "How many." in (await defined("explain tier.spec.size")).out
    listed = (await defined("api-resources --api-group=tonnage.dev")).rows
    assert listed == [["tiers", "tr", "tonnage.dev/v1", "false", "Tier"]]


async def test_a_strategic_patch_of_a_custom_kind_is_refused(defined: Any) -> None:
    await defined("apply -f -", _json(TIER))
    answer = await defined.attempt(["patch", "tier", "gold", "--type=strategic", "-p", '{"spec":{"size":2}}'])
    assert answer.code == 1
    assert "the body of the request was in an unknown format" in answer.err


async def test_deleting_the_definition_takes_its_instances_along(defined: Any, running: Any) -> None:
    await defined("apply -f -", _json(TIER))
    await defined("delete crd tiers.tonnage.dev --timeout=30s")
    gone = (await defined.attempt("get tiers")).err
    assert gone.endswith("the server could not find the requested resource (get tiers.tonnage.dev)\n")
    assert running.server.store.list(("tonnage.dev", "tiers")) == []


async def test_a_second_definition_of_the_same_kind_is_not_accepted(defined: Any) -> None:
    other = _json(DEFINITION).replace("tiers", "tears").replace('"tier"', '"tear"').replace('"tr"', '"te"')
    await defined("apply -f -", other)
    path = "jsonpath={.status.conditions[?(@.type=='NamesAccepted')].message}"
    answer = await defined(["get", "crd", "tears.tonnage.dev", "-o", path])
    assert answer.out == '"TierList" is already in use'
