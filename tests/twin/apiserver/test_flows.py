"""Which FlowSchema a request falls under."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.adapters.clock import SystemClock
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import text
from tonnage.twin.apiserver.flows import Flows, nominal_seats
from tonnage.twin.apiserver.rbac.rules import Attributes
from tonnage.twin.apiserver.requests import Address, User
from tonnage.twin.apiserver.server import ApiServer

_ADMIN = User("admin", ("system:masters", "system:authenticated"))
_ACCOUNT = User("system:serviceaccount:kube-system:a", ("system:serviceaccounts", "system:authenticated"))
_NODE = User("system:node:n", ("system:nodes", "system:authenticated"))
_BOB = User("bob", ("system:authenticated",))
_NOBODY = User("bob")
_OWN: JsonObject = {
    "metadata": {"name": "own"},
    "spec": {
        "matchingPrecedence": 50,
        "priorityLevelConfiguration": {"name": "system"},
        "rules": [
            {
                "subjects": [{"kind": "User", "user": {"name": "bob"}}],
                "resourceRules": [
                    {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/status"], "namespaces": ["ml"]}
                ],
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/version", "/api/*"]}],
            }
        ],
    },
}


def _path(user: User, path: str) -> Attributes:
    return Attributes(user, "get", path=path, of_resource=False)


_ROWS: list[tuple[str, Attributes, str, str]] = [
    ("administrators are exempt", Attributes(_ADMIN, "list", "", "pods"), "exempt", "exempt"),
    ("so are probes of anybody", _path(_BOB, "/healthz"), "probes", "exempt"),
    ("and their single checks", _path(_BOB, "/livez/ping"), "probes", "exempt"),
    (
        "accounts of the system's namespace",
        Attributes(_ACCOUNT, "list", "", "pods"),
        "kube-system-service-accounts",
        "workload-high",
    ),
    (
        "nodes about themselves",
        Attributes(_NODE, "patch", "", "nodes", "status"),
        "system-node-high",
        "node-high",
    ),
    ("nodes about pods", Attributes(_NODE, "list", "", "pods"), "system-nodes", "system"),
    ("anybody else", Attributes(_BOB, "list", "", "pods"), "global-default", "global-default"),
    ("a part of a schema's own", Attributes(_BOB, "get", "", "pods", "status", "ml"), "own", "system"),
    (
        "of another namespace",
        Attributes(_BOB, "get", "", "pods", "status", "x"),
        "global-default",
        "global-default",
    ),
    ("of all namespaces", Attributes(_BOB, "get", "", "pods", "status"), "global-default", "global-default"),
    ("a path below a schema's own", _path(_BOB, "/api/v1"), "own", "system"),
    ("the path of which it is below", _path(_BOB, "/api"), "global-default", "global-default"),
    ("what lasts", Attributes(_BOB, "get", "", "pods", "log", "ml", "p"), "", ""),
    ("whom no schema is about", _path(_NOBODY, "/nothing"), "", ""),
]


@pytest.mark.parametrize(
    ("asked", "schema", "level"), [row[1:] for row in _ROWS], ids=[row[0] for row in _ROWS]
)
async def test_a_request_falls_under_the_first_schema_that_is_about_it(
    asked: Attributes, schema: str, level: str
) -> None:
    server = ApiServer(SystemClock())
    flows = Flows(server.store)
    before = flows.headers(asked)
    address = Address(("flowcontrol.apiserver.k8s.io", "v1", "flowschemas"))
    await server.verbs.create(server.verbs.request("create", address), _OWN)
    named = {
        text(stored.object, "metadata", "uid").encode(): text(stored.object, "metadata", "name")
        for plural in ("flowschemas", "prioritylevelconfigurations")
        for stored in server.store.list(("flowcontrol.apiserver.k8s.io", plural))
    }
    told = [named[value] for _, value in flows.headers(asked)]
    assert told == ([schema, level] if schema else [])
    assert (before != flows.headers(asked)) == (schema == "own")


async def test_answers_name_schema_and_level_once_it_is_known_who_asks(running: Any) -> None:
    allowed = await running.http("GET", "/api/v1/pods")
    refused = await running.http("GET", "/api/v1/pods", impersonate_user="bob")
    unknown = await running.http("GET", "/api/v1/pods", token="wrong")
    assert (allowed.code, refused.code, unknown.code) == (200, 403, 401)
    said = [answer.headers.get("x-kubernetes-pf-flowschema-uid") for answer in (allowed, refused, unknown)]
    assert said[0]
    assert said[1] not in (said[0], None)
    assert said[2] is None


async def test_levels_share_the_servers_seats_by_their_shares(running: Any) -> None:
    server = ApiServer(SystemClock())
    found = nominal_seats(server.store)
    assert (found["exempt"], found["leader-election"], found["workload-low"]) == (0, 25, 245)
    told = (await running.http("GET", "/metrics")).out
    assert 'apiserver_flowcontrol_nominal_limit_seats{priority_level="workload-low"} 245\n' in told
