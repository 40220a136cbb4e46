"""Reviews and requests for tokens: what is refused, what is overlooked, and who wrote what of them."""

from __future__ import annotations

from typing import Any

import pytest

PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def reviewed(running: Any, metadata: dict[str, Any] | None = None, **selectors: Any) -> Any:
    attributes = {"verb": "list", "resource": "pods", **selectors}
    body = {"metadata": metadata or {}, "spec": {"user": "x", "resourceAttributes": attributes}}
    return (await running.http("POST", PATH, body)).json


@pytest.mark.parametrize(
    ("key", "requirement", "told"),
    [
        ("fieldSelector", {"key": "", "operator": "Foo"}, "key: Required value: must be specified"),
        (
            "fieldSelector",
            {"key": "a", "operator": "Exists", "values": ["b"]},
            "values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (
            "labelSelector",
            {"key": "a", "operator": "NotIn"},
            "values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
    ],
)
async def test_a_requirement_is_refused_for(
    running: Any, key: str, requirement: dict[str, Any], told: str
) -> None:
    refused = await reviewed(running, **{key: {"requirements": [requirement]}})
    where = f"spec.resourceAttributes.{key}.requirements[0]"
    assert refused["message"] == f'.authorization.k8s.io "" is invalid: {where}.{told}'


@pytest.mark.parametrize(
    ("key", "selector", "told"),
    [
        ("fieldSelector", {"rawSelector": "a;b"}, "ignored"),
        ("labelSelector", {"rawSelector": "a in (b"}, "ignored"),
        (
            "fieldSelector",
            {"requirements": [{"key": "a", "operator": "In", "values": ["x", "y"]}]},
            "ignored",
        ),
        (
            "labelSelector",
            {"requirements": [{"key": "a", "operator": "Foo"}, {"key": "b", "operator": "Exists"}]},
            "partially ignored",
        ),
        ("fieldSelector", {"rawSelector": "spec.any=x"}, ""),
    ],
)
async def test_a_selector_that_nobody_can_read_is_overlooked(
    running: Any, key: str, selector: dict[str, Any], told: str
) -> None:
    status = (await reviewed(running, **{key: selector}))["status"]
    words = f"spec.resourceAttributes.{key} {told} due to parse error" if told else ""
    assert status.get("evaluationError", "") == words


async def test_metadata_is_refused_but_for_entries_and_shown_with_them(running: Any) -> None:
    fine = await reviewed(running, {"namespace": "gone"})
    [entry] = fine["metadata"]["managedFields"]
    assert fine["metadata"].keys() == {"managedFields"}
    assert entry["fieldsV1"]["f:spec"].keys() == {"f:resourceAttributes", "f:user"}
    again = await reviewed(running, {"managedFields": [entry]})
    assert again["status"] == {"allowed": False}
    refused = await reviewed(running, {"name": "a"})
    assert '{"name":"a","managedFields":[{' in refused["message"]


async def test_a_token_says_who_wrote_what_of_its_request(running: Any) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await running.http("POST", accounts, {"metadata": {"name": "robot"}})
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    [entry] = (await running.http("POST", f"{accounts}/robot/token", token)).json["metadata"]["managedFields"]
    assert entry["apiVersion"] == "authentication.k8s.io/v1"
    assert (entry["subresource"], entry["fieldsV1"]) == ("token", {"f:spec": {"f:expirationSeconds": {}}})


@pytest.mark.parametrize(
    ("bound", "told"),
    [
        ({"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}, "of type /v1, Kind=ConfigMap"),
        ({"kind": "Pod", "apiVersion": "apps/v1", "name": "x"}, "of type apps/v1, Kind=Pod"),
        ({"kind": "Pod", "apiVersion": "v1"}, "Name parameter required."),
    ],
)
async def test_a_token_is_bound_to_nothing_else(running: Any, bound: dict[str, Any], told: str) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await running.http("POST", accounts, {"metadata": {"name": "robot"}})
    token = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": bound},
    }
    assert (await running.http("POST", f"{accounts}/robot/token", token)).json["message"].endswith(told)
