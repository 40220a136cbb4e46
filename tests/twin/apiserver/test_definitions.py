"""Definitions of custom kinds: how they end, and what of conversion is refused."""

from __future__ import annotations

from typing import Any

import pytest

from support.api_stores import new_store
from tonnage.adapters.clock import SystemClock
from tonnage.model.errors import ApiError
from tonnage.ports.kubernetes import PatchType
from tonnage.twin.apiserver.requests import DeleteOptions, ResourcePath
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.verbs import Verbs

_DEFINITIONS = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
_THINGS = ("example.org", "v1", "things")
_OPEN = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


def _definition(**spec: Any) -> dict[str, Any]:
    versions = [{"name": "v1", "served": True, "storage": True, "schema": _OPEN}]
    names = {"plural": "things", "kind": "Thing"}
    return {
        "metadata": {"name": "things.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced", "names": names, "versions": versions, **spec},
    }


async def _defined() -> Verbs:
    verbs = ApiServer(SystemClock(), store=new_store()).verbs
    await verbs.create(verbs.request("create", ResourcePath(_DEFINITIONS)), _definition())
    return verbs


async def test_instances_end_before_their_definition() -> None:
    verbs = await _defined()
    make = verbs.request("create", ResourcePath(_THINGS, "default"))
    held: Any = {"metadata": {"name": "held", "finalizers": ["example.org/wait"]}}
    await verbs.create(make, held)
    await verbs.create(make, {"metadata": {"name": "free"}})
    whole = ResourcePath(_DEFINITIONS, name="things.example.org")
    await verbs.delete(verbs.request("delete", whole), DeleteOptions())
    status: Any = (await verbs.get(verbs.request("get", whole)))["status"]
    assert status["conditions"][-1]["reason"] == "InstanceDeletionInProgress"
    with pytest.raises(ApiError, match="create not allowed while custom resource definition is terminating"):
        await verbs.create(
            verbs.request("create", ResourcePath(_THINGS, "default")), {"metadata": {"name": "new"}}
        )
    one = ResourcePath(_THINGS, "default", "held")
    left: Any = await verbs.get(verbs.request("get", one))
    assert left["metadata"]["deletionGracePeriodSeconds"] == 0
    assert left["metadata"]["generation"] == 2
    with pytest.raises(ApiError, match='"free" not found'):
        await verbs.get(verbs.request("get", ResourcePath(_THINGS, "default", "free")))
    patch: Any = {"metadata": {"finalizers": None}}
    await verbs.patch(verbs.request("patch", one), PatchType.MERGE, patch)
    with pytest.raises(ApiError, match="not found"):
        await verbs.get(verbs.request("get", whole))
    with pytest.raises(ApiError, match="could not find the requested resource"):
        verbs.request("get", one)


async def test_conversion_by_webhooks_is_refused_where_objects_would_be_converted() -> None:
    verbs = ApiServer(SystemClock(), store=new_store()).verbs
    hook = {"clientConfig": {"url": "https://localhost/convert"}, "conversionReviewVersions": ["v1"]}
    conversion = {"strategy": "Webhook", "webhook": hook}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": _OPEN} for name in ("v1", "v2")
    ]
    body = _definition(conversion=conversion, versions=versions)
    with pytest.raises(ApiError, match="this server converts nothing by webhooks: serve one version"):
        await verbs.create(verbs.request("create", ResourcePath(_DEFINITIONS)), body)
    await verbs.create(
        verbs.request("create", ResourcePath(_DEFINITIONS)), _definition(conversion=conversion)
    )


async def test_an_object_is_shown_in_every_version_and_stored_in_one() -> None:
    verbs = ApiServer(SystemClock(), store=new_store()).verbs
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": _OPEN} for name in ("v1", "v2")
    ]
    await verbs.create(verbs.request("create", ResourcePath(_DEFINITIONS)), _definition(versions=versions))
    newer = ("example.org", "v2", "things")
    await verbs.create(verbs.request("create", ResourcePath(newer, "default")), {"metadata": {"name": "a"}})
    stored = verbs.store.get(("example.org", "things"), ("default", "a"))
    assert stored is not None
    assert stored.object["apiVersion"] == "example.org/v1"
    for path in (_THINGS, newer):
        shown = await verbs.get(verbs.request("get", ResourcePath(path, "default", "a")))
        assert shown["apiVersion"] == f"example.org/{path[1]}"


async def test_a_conversion_that_nobody_knows_is_refused_with_unknown_fields_and_schemas_that_are_none() -> (
    None
):
    verbs = ApiServer(SystemClock(), store=new_store()).verbs
    unstored = {"served": True, "storage": False}
    versions = [{"name": "v1", "schema": _OPEN, **unstored}, {"name": "v2", "schema": {}, **unstored}]
    wrong = _definition(conversion={"strategy": "node-1"}, preserveUnknownFields=True, versions=versions)
    with pytest.raises(ApiError) as refused:
        await verbs.create(verbs.request("create", ResourcePath(_DEFINITIONS)), wrong)
    said = str(refused.value)
    assert 'conversion.strategy: Invalid value: "node-1": must be None if spec.preserveUnknownFields' in said
    assert '"Schema":{"OpenAPIV3Schema":null}' in said


_UNTYPED = {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": [{"rule": "self == 1"}]}


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        ({"additionalItems": {}}, "Forbidden: additionalItems is not supported"),
        ({"additionalItems": True}, "Forbidden: additionalItems is not supported"),
        ({"additionalItems": {"type": "string"}}, "Forbidden: additionalItems is not supported"),
        ({"dependencies": {}}, "Forbidden: dependencies is not supported"),
        ({"items": []}, "items: Required value: must be specified"),
        ({"items": _UNTYPED}, "unable to convert structural schema to CEL declarations"),
    ],
    ids=str,
)
async def test_schemas_are_refused_for_what_they_may_not_have_even_empty(inner: Any, words: str) -> None:
    verbs = ApiServer(SystemClock(), store=new_store()).verbs
    field = {"type": "array", "items": {"type": "string"}, **inner}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"a": field}}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    with pytest.raises(ApiError, match=words):
        await verbs.create(
            verbs.request("create", ResourcePath(_DEFINITIONS)), _definition(versions=versions)
        )


async def test_who_keeps_unknown_fields_may_have_no_defaults() -> None:
    verbs = ApiServer(SystemClock(), store=new_store()).verbs
    defaulted = {"type": "object", "properties": {"a": {"type": "string", "default": "b"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": defaulted}}
    wrong = _definition(preserveUnknownFields=True, versions=[version])
    with pytest.raises(ApiError, match="must be false in order to use defaults in the schema"):
        await verbs.create(verbs.request("create", ResourcePath(_DEFINITIONS)), wrong)


async def test_a_definition_of_a_version_that_is_served_no_more_is_known() -> None:
    verbs = ApiServer(SystemClock(), store=new_store()).verbs
    body = {**_definition(), "apiVersion": "apiextensions.k8s.io/v1beta1"}
    with pytest.raises(ApiError, match="does not match the expected API version"):
        await verbs.create(verbs.request("create", ResourcePath(_DEFINITIONS)), body)
    nameless: dict[str, Any] = {**_definition(), "metadata": {"generateName": "x-"}}
    with pytest.raises(ApiError, match=r'metadata\.generateName: Invalid value: "x-": must be spec'):
        await verbs.create(verbs.request("create", ResourcePath(_DEFINITIONS)), nameless)
