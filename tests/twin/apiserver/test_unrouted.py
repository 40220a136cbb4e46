"""Proxies and forwarded ports end where a server would dial, in its words; who owns the first objects."""

from __future__ import annotations

from typing import Any

import pytest

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
        ("GET", "services/s:81/proxy/x", 503, 'no service port 81 found for service "s"'),
        ("POST", "services/s/proxy/", 404, 'services "s" not found'),
        ("GET", "services/ftp:s:1/proxy", 400, 'invalid service request "ftp:s:1"'),
        ("GET", "pods/p:80/proxy/x/y", 400, "address not allowed"),
        ("GET", "pods/a:b:c:d/proxy", 400, 'invalid pod request "a:b:c:d"'),
        ("GET", "pods/p/portforward", 400, "pod p does not have a host assigned"),
        ("PUT", "pods/p/portforward", 405, "the server does not allow this method on the requested resource"),
    ],
)
async def test_what_is_not_reached_is_told(
    running: Any, method: str, path: str, code: int, message: str
) -> None:
    await running.http("POST", f"{_BASE}/pods", _POD)
    await running.http("POST", f"{_BASE}/services", _SERVICE)
    answer = await running.http(method, f"{_BASE}/{path}", {} if method != "GET" else None)
    assert (answer.code, answer.json["message"]) == (code, message)


async def test_endpoints_that_are_no_pods_are_not_reached(running: Any) -> None:
    subset = {"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 80}]}
    await running.http("POST", f"{_BASE}/services", _SERVICE)
    await running.http("POST", f"{_BASE}/endpoints", {"metadata": {"name": "s"}, "subsets": [subset]})
    answer = await running.http("GET", f"{_BASE}/services/s:80/proxy/")
    assert answer.json["message"] == 'no endpoints available for service "s:80"'


@pytest.mark.parametrize(
    ("path", "managers"),
    [
        ("/api/v1/namespaces/default", ["kube-apiserver"]),
        ("/apis/apiregistration.k8s.io/v1/apiservices/v1.apps", ["kube-apiserver"]),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/view",
            ["clusterrole-aggregation-controller", "kube-apiserver"],
        ),
    ],
)
async def test_what_the_server_brings_is_its_own(running: Any, path: str, managers: list[str]) -> None:
    entries = (await running.http("GET", path)).json["metadata"]["managedFields"]
    assert [entry["manager"] for entry in entries] == managers
