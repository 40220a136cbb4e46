"""Proxies and forwarded ports lead nowhere, and say so; who owns the first objects."""

from __future__ import annotations

from typing import Any

import pytest

_NOWHERE = "error trying to reach service: on this twin nothing routes"
_BASE = "/api/v1/namespaces/default"
_POD = {
    "metadata": {"name": "p"},
    "spec": {"schedulerName": "x", "containers": [{"name": "c", "image": "i"}]},
}
_SERVICE = {"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}


@pytest.mark.parametrize(
    ("method", "path", "code", "message"),
    [
        ("GET", "services/none/proxy", 404, 'services "none" not found'),
        ("GET", "services/s:80/proxy/x", 503, _NOWHERE),
        ("POST", "services/https:s:80/proxy/", 503, _NOWHERE),
        ("GET", "pods/q/portforward", 404, 'pods "q" not found'),
        ("POST", "pods/p/portforward", 503, _NOWHERE),
    ],
)
async def test_what_is_not_reached_is_told(
    running: Any, method: str, path: str, code: int, message: str
) -> None:
    await running.http("POST", f"{_BASE}/pods", _POD)
    await running.http("POST", f"{_BASE}/services", _SERVICE)
    answer = await running.http(method, f"{_BASE}/{path}", {} if method != "GET" else None)
    assert (answer.code, answer.json["message"]) == (code, message)


@pytest.mark.parametrize(
    ("path", "managers"),
    [
        ("/api/v1/namespaces/default", ["kube-apiserver"]),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/view",
            ["clusterrole-aggregation-controller", "kube-apiserver"],
        ),
    ],
)
async def test_what_the_server_brings_is_its_own(running: Any, path: str, managers: list[str]) -> None:
    entries = (await running.http("GET", path)).json["metadata"]["managedFields"]
    assert [entry["manager"] for entry in entries] == managers
