"""Webhooks beyond what is recorded: services with endpoints, other versions, what one costs the others."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from support.api_stores import new_store
from support.webhook_server import webhooks
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.requests import ApiRequest, ResourcePath
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import CONFIG_MAP, SERVICE

KINDS = "admissionregistration.k8s.io", "v1"
MAPS: JsonObject = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
    "operations": ["*"],
}


@pytest.fixture(scope="module")
def hooks() -> Iterator[dict[str, str]]:
    with webhooks() as found:
        yield found


@pytest.fixture
def server() -> ApiServer:
    return ApiServer(VirtualClock(), store=new_store())


async def create(
    server: ApiServer, path: tuple[str, str, str], body: JsonObject, space: str = ""
) -> ApiRequest:
    request = server.verbs.request("create", ResourcePath(path, space))
    await server.verbs.create(request, body)
    return request


async def configure(server: ApiServer, client: JsonObject, **more: Any) -> None:
    hook: JsonObject = {
        "name": "one.example.org",
        "clientConfig": client,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [MAPS],
        **more,
    }
    body: JsonObject = {"metadata": {"name": "hooks"}, "webhooks": [hook]}
    await create(server, (*KINDS, "validatingwebhookconfigurations"), body)


async def refusal(server: ApiServer, name: str = "c") -> str:
    try:
        await server.local().create(CONFIG_MAP, {"metadata": {"name": name}}, namespace="default")
    except ApiError as error:
        return error.message
    return ""


async def test_a_service_leads_to_its_endpoints(server: ApiServer, hooks: dict[str, str]) -> None:
    service: JsonObject = {"ports": [{"port": 443}]}
    body: JsonObject = {"metadata": {"name": "hook"}, "spec": service}
    await server.local().create(SERVICE, body, namespace="default")
    client: JsonObject = {
        "service": {"namespace": "default", "name": "hook", "path": "/deny"},
        "caBundle": hooks["ca"],
    }
    await configure(server, client)
    assert 'no endpoints available for service "hook"' in await refusal(server)
    addresses: JsonObject = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": int(hooks["port"])}]}
    endpoints: JsonObject = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "hook", "namespace": "default"},
        "subsets": [
            {**addresses, "addresses": [{"ip": "x" * 70}]},
            {**addresses, "ports": [{"port": 1 << 16}]},
            addresses,
        ],
    }
    server.store.create(("", "endpoints"), ("default", "hook"), endpoints)  # nobody checks what they say
    assert await refusal(server) == 'admission webhook "one.example.org" denied the request: not today'


async def test_a_service_leads_to_what_a_pod_serves_on_loopback(
    server: ApiServer, hooks: dict[str, str]
) -> None:
    """Programs of ours that pods run have no address but the machine's."""
    ports: JsonObject = {"ports": [{"port": 443, "targetPort": "webhook"}], "selector": {"app": "hook"}}
    await server.local().create(SERVICE, {"metadata": {"name": "hook"}, "spec": ports}, namespace="default")
    client: JsonObject = {
        "service": {"namespace": "default", "name": "hook", "path": "/deny"},
        "caBundle": hooks["ca"],
    }
    await configure(server, client)
    pod: JsonObject = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "hook",
            "namespace": "default",
            "labels": {"app": "hook"},
            "annotations": {"tonnage.dev/loopback-9443": f"127.0.0.1:{hooks['port']}"},
        },
        "spec": {"containers": [{"ports": [{"name": "webhook", "containerPort": 9443}]}]},
        "status": {"phase": "Running", "podIP": "10.0.0.9"},
    }
    server.store.create(("", "pods"), ("default", "hook"), pod)
    assert await refusal(server) == 'admission webhook "one.example.org" denied the request: not today'


async def test_a_host_that_nobody_knows_is_told_as_one(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(*_arguments: Any, **_options: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("asyncio.open_connection", unknown)
    await configure(server, {"url": "https://nowhere.invalid/x"})
    assert re.search(r"dial tcp: lookup nowhere\.invalid( on \S+:53)?: no such host$", await refusal(server))


async def test_a_webhook_that_hangs_holds_up_no_other_request(
    server: ApiServer, hooks: dict[str, str]
) -> None:
    selector: JsonObject = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
    client: JsonObject = {"url": f"{hooks['hook']}/hang", "caBundle": hooks["ca"]}
    await configure(server, client, namespaceSelector=selector, timeoutSeconds=30)
    held = asyncio.ensure_future(refusal(server))
    await asyncio.sleep(0)
    for index in range(20):
        await server.local().create(CONFIG_MAP, {"metadata": {"name": f"c{index}"}}, namespace="kube-public")
    assert not held.done()
    held.cancel()
    await asyncio.gather(held, return_exceptions=True)
    assert server.store.get(("", "configmaps"), ("default", "c")) is None


@pytest.mark.parametrize(("policy", "asked"), [("Equivalent", True), ("Exact", False)])
async def test_another_version_of_the_resource_is_the_same_to_matchPolicy_Equivalent(  # noqa: N802
    server: ApiServer, hooks: dict[str, str], policy: str, asked: bool
) -> None:
    client: JsonObject = {"url": f"{hooks['hook']}/echo", "caBundle": hooks["ca"]}
    rule: JsonObject = {
        "apiGroups": ["autoscaling"],
        "apiVersions": ["v1"],
        "resources": ["horizontalpodautoscalers"],
        "operations": ["*"],
    }
    await configure(server, client, rules=[rule], matchPolicy=policy)
    target: JsonObject = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    body: JsonObject = {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}
    path = ("autoscaling", "v2", "horizontalpodautoscalers")
    if not asked:
        await create(server, path, body, "default")
        return
    with pytest.raises(ApiError) as error:
        await create(server, path, body, "default")
    told = error.value.message
    assert '"kind": {"group": "autoscaling", "kind": "HorizontalPodAutoscaler", "version": "v1"}' in told
    assert (
        '"requestKind": {"group": "autoscaling", "kind": "HorizontalPodAutoscaler", "version": "v2"}' in told
    )
