"""What the server drops, keeps and counts of writes to kinds that are met less often."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from support.api_stores import new_store
from tonnage.decide.kubernetes.api.patches.json_patches import merge_patch
from tonnage.model.json_access import at
from tonnage.twin.apiserver.requests import Options, ResourcePath
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import Kind
from tonnage.wire.objects import Object

LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases", True, Object)
SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True, Object)
ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, Object)
NODE = Kind("", "v1", "Node", "nodes", False, Object)
DEVICES = Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False, Object)
RANGE = Kind("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", False, Object)
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles", True, Object)
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True, Object)
LEVEL = Kind(
    "flowcontrol.apiserver.k8s.io",
    "v1",
    "PriorityLevelConfiguration",
    "prioritylevelconfigurations",
    False,
    Object,
)
ENDPOINTS: Any = {"addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}]}
DEVICE: Any = {
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d"}],
    }
}
READY: Any = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    ("kind", "body", "then", "path", "value"),
    [
        pytest.param(
            LEASE,
            {"spec": {"holderIdentity": "a", "strategy": "OldestEmulationVersion"}},
            {"spec": {"preferredHolder": "b"}},
            ("spec",),
            {"holderIdentity": "a"},
            id="leases without a gate elect nobody together",
        ),
        pytest.param(
            SLICE,
            ENDPOINTS,
            {"endpoints": [{"addresses": ["192.0.2.1"], "deprecatedTopology": {"a": "b"}}]},
            ("endpoints",),
            [{"addresses": ["192.0.2.1"], "conditions": {}}],
            id="endpoints lie nowhere in old words",
        ),
        pytest.param(
            SLICE,
            ENDPOINTS,
            {"endpoints": [{"addresses": ["192.0.2.1"], "deprecatedTopology": {"a": "b"}}]},
            ("metadata", "generation"),
            2,
            id="endpoints that were sent with old words have changed",
        ),
        pytest.param(
            NETWORK_POLICY,
            {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
            {"spec": {"ingress": []}},
            ("metadata", "generation"),
            2,
            id="a network policy that was sent with an empty list has changed",
        ),
        pytest.param(
            NETWORK_POLICY,
            {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
            {"metadata": {"labels": {"a": "b"}}, "spec": {"policyTypes": []}},
            ("metadata", "generation"),
            1,
            id="a network policy that is labelled, and whose empty list is filled in, has not",
        ),
        pytest.param(
            DEVICES,
            DEVICE,
            {"spec": {"devices": [{"name": "d", "bindsToNode": False}]}},
            ("metadata", "generation"),
            2,
            id="devices that were sent with fields behind gates have changed",
        ),
        pytest.param(
            RANGE,
            {"spec": {"cidrs": ["10.97.0.0/24"]}},
            {"status": {"conditions": [READY]}},
            ("status", "conditions"),
            [{**READY, "lastTransitionTime": None, "reason": "", "message": ""}],
            id="ranges of services are written with their status",
        ),
        pytest.param(
            LEVEL,
            {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}},
            {"spec": {"limited": {"lendablePercent": None}}},
            ("spec", "limited"),
            {
                "nominalConcurrencyShares": 30,
                "limitResponse": {
                    "type": "Queue",
                    "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50},
                },
                "lendablePercent": 0,
            },
            id="levels have queues of a usual size, and lend nothing",
        ),
        pytest.param(
            ACCOUNT,
            {"secrets": [{"name": "a", "kind": "Secret"}]},
            {"secrets": [{"name": "b", "namespace": "c"}, {"uid": "d"}]},
            ("secrets",),
            [{"name": "b"}, {}],
            id="service accounts keep names of secrets",
        ),
        pytest.param(
            NODE,
            {"spec": {"configSource": {"configMap": {}}, "unschedulable": True}},
            {"spec": {"configSource": {"configMap": {}}}},
            ("spec", "configSource"),
            None,
            id="nodes are not configured from elsewhere",
        ),
    ],
)
async def test_fields_are_dropped_kept_and_counted(
    kind: Kind[Object], body: Any, then: Any, path: tuple[str, ...], value: Any
) -> None:
    server = ApiServer(VirtualClock(), random=Random(1), store=new_store())
    space = "default" if kind.namespaced else ""
    key = ((kind.group, kind.plural), (space, "x"))
    await server.local().create(kind, {"metadata": {"name": "x"}, **body}, namespace=space)
    made: Any = server.store.get(*key)
    changed: Any = merge_patch(made.object, then)
    await server.local().replace(kind, changed, namespace=space)
    found: Any = server.store.get(*key)
    assert at(found.object, *path) == value


async def test_who_sends_an_empty_list_owns_it_though_none_is_kept() -> None:
    server = ApiServer(VirtualClock(), random=Random(1), store=new_store())
    body: Any = {"metadata": {"name": "x"}, "rules": []}
    await server.local("anna").create(ROLE, body, namespace="default")
    found: Any = server.store.get((ROLE.group, ROLE.plural), ("default", "x"))
    assert found.object["rules"] is None
    [entry] = found.object["metadata"]["managedFields"]
    assert (entry["manager"], entry["fieldsV1"]) == ("anna", {"f:rules": {}})


async def test_ports_of_a_service_that_is_only_tried_lie_behind_the_range() -> None:
    server = ApiServer(VirtualClock(), random=Random(1), store=new_store())
    ports: Any = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    spec: Any = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports}
    body: Any = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": spec}
    address = ResourcePath(("", "v1", "services"), "default")
    request = server.verbs.request("create", address, options=Options(dry_run=True))
    made: Any = (await server.verbs.create(request, body)).object["spec"]
    assert [port["nodePort"] for port in made["ports"]] == [32769, 32770]
    assert made["healthCheckNodePort"] == 32771
