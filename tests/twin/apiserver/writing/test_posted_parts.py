"""What is posted to pods and accounts, and put as a Scale, is refused in a genuine server's words."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from support.api_stores import new_store
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.requests import Options, ResourcePath
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.verbs import Verbs
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import DEPLOYMENT, POD

NAMED: JsonObject = {"metadata": {"name": "p"}}
TARGET: JsonObject = {"target": {"name": "n"}}
UNKNOWN = 'no kind "{}" is registered for version "{}" in scheme "pkg/runtime/scheme.go:111"'
ELSEWHERE = "the namespace of the provided object does not match the namespace sent on the request"
TEMPLATE: JsonObject = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


@pytest.fixture
async def verbs() -> Verbs:
    server = ApiServer(VirtualClock(), random=Random(1), store=new_store())
    pod: JsonObject = {"metadata": {"name": "p"}, "spec": TEMPLATE["spec"]}
    await server.local().create(POD, pod, namespace="default")
    spec: JsonObject = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    await server.local().create(DEPLOYMENT, {"metadata": {"name": "p"}, "spec": spec}, namespace="default")
    return server.verbs


async def refused(coming: Any) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        await coming
    return caught.value.code, caught.value.message


@pytest.mark.parametrize(
    ("part", "body", "dry_run", "refusal"),
    [
        pytest.param(
            "eviction",
            {**NAMED, "deleteOptions": {"propagationPolicy": "x"}},
            False,
            (
                422,
                (
                    'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "x": '
                    'supported values: "Foreground", "Background", "Orphan", "nil"'
                ),
            ),
            id="an eviction goes in one of three ways",
        ),
        pytest.param(
            "eviction",
            {**NAMED, "deleteOptions": {"dryRun": ["All", "All"]}},
            True,
            (500, "Non-matching dry-run options in request and content: [All] and [All All]"),
            id="an eviction is tried as its request is",
        ),
        pytest.param(
            "eviction",
            {**NAMED, "apiVersion": "apps/v1", "kind": "Eviction"},
            False,
            (
                400,
                'Eviction in version "v1" cannot be handled as a Eviction: '
                + UNKNOWN.format("Eviction", "apps/v1"),
            ),
            id="an eviction is of its group",
        ),
        pytest.param(
            "binding",
            {**NAMED, **TARGET, "kind": "Pod", "apiVersion": "v1"},
            False,
            (
                400,
                (
                    'Pod in version "v1" cannot be handled as a Binding: '
                    "converting (v1.Pod) to (core.Binding): unknown conversion"
                ),
            ),
            id="a binding is no pod",
        ),
        pytest.param(
            "binding",
            {"metadata": {"name": "p", "namespace": "other"}},
            False,
            (400, ELSEWHERE),
            id="a binding lies beside its pod, and has a target only then",
        ),
    ],
)
async def test_what_is_posted_to_a_pod(
    verbs: Verbs, part: str, body: Any, dry_run: bool, refusal: tuple[int, str]
) -> None:
    address = ResourcePath(("", "v1", "pods"), "default", "p", part)
    request = verbs.request("create", address, options=Options(dry_run=dry_run))
    assert await refused(verbs.create_subresource(request, body)) == refusal


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        pytest.param(TARGET, (400, "Name parameter required."), id="no pod"),
        pytest.param(
            {"metadata": {"name": "a/b"}, **TARGET},
            (400, "Name parameter invalid: \"a/b\": may not contain '/'"),
            id="no name",
        ),
    ],
)
async def test_bindings_in_a_list_name_their_pod(
    verbs: Verbs, body: JsonObject, refusal: tuple[int, str]
) -> None:
    request = verbs.request("create", ResourcePath(("", "v1", "bindings"), "default"))
    assert await refused(verbs.create(request, body)) == refusal


async def test_bindings_in_a_list_take_no_uid(verbs: Verbs) -> None:
    request = verbs.request("create", ResourcePath(("", "v1", "bindings"), "default"))
    await verbs.create(request, {"metadata": {"name": "p", "uid": "another"}, **TARGET})


async def test_an_older_eviction_is_one(verbs: Verbs) -> None:
    body: JsonObject = {**NAMED, "apiVersion": "policy/v1beta1", "kind": "Eviction"}
    address = ResourcePath(("", "v1", "pods"), "default", "p", "eviction")
    done = await verbs.create_subresource(verbs.request("create", address), body)
    assert done["status"] == "Success"


@pytest.mark.parametrize(
    ("reference", "refusal"),
    [
        pytest.param({}, (400, "cannot bind token to object of type /, Kind="), id="nothing"),
        pytest.param({"kind": "Pod"}, (400, "Name parameter required."), id="no name"),
        pytest.param(
            {"kind": "Pod", "apiVersion": "/v2", "name": "x"}, (404, 'pods "x" not found'), id="any version"
        ),
        pytest.param(
            {"kind": "Pod", "apiVersion": "a/v1", "name": "p"},
            (400, "cannot bind token to object of type a/v1, Kind=Pod"),
            id="another group",
        ),
    ],
)
async def test_what_a_token_is_bound_to(
    verbs: Verbs, reference: JsonObject, refusal: tuple[int, str]
) -> None:
    account = verbs.request("create", ResourcePath(("", "v1", "serviceaccounts"), "default"))
    await verbs.create(account, {"metadata": {"name": "robot"}})
    address = ResourcePath(("", "v1", "serviceaccounts"), "default", "robot", "token")
    request = verbs.request("create", address)
    body: JsonObject = {"spec": {"boundObjectRef": reference}}
    assert await refused(verbs.create_subresource(request, body)) == refusal


async def test_a_scale_of_another_object_is_refused(verbs: Verbs) -> None:
    address = ResourcePath(("apps", "v1", "deployments"), "default", "p", "scale")
    body: JsonObject = {"metadata": {"name": "p", "uid": "another"}, "spec": {"replicas": 2}}
    code, words = await refused(verbs.update(verbs.request("update", address), body))
    assert (code, words.partition(", UID in object")[0]) == (
        409,
        (
            'Operation cannot be fulfilled on deployments.apps "p": StorageError: invalid object, Code: 4, '
            "Key: /registry/deployments/default/p, ResourceVersion: 0, AdditionalErrorMsg: "
            "Precondition failed: UID in precondition: another"
        ),
    )
