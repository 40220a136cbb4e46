"""Where services lead: EndpointSlices of the pods behind them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.model.json import JsonObject
from tonnage.twin.controllers.services.endpoint_slices import EndpointSlicesController
from tonnage.twin.controllers.services.ports import in_order, port_number
from tonnage.twin.controllers.services.slice_plan import MOST_ENDPOINTS, Slice, plan
from tonnage.wire.endpoints import EndpointSlice
from tonnage.wire.kinds import ENDPOINT_SLICE, POD, SERVICE
from tonnage.wire.objects import (
    Condition,
    Container,
    ContainerPort,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
    Service,
)

Cluster = Any
HTTP: JsonObject = {"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}


def service(**spec: Any) -> Service:
    given = {"selector": {"app": "web"}, "clusterIP": "10.96.0.9", "ports": [HTTP], **spec}
    return Service(metadata=ObjectMeta(name="web", namespace="n", uid="s"), spec=given)


def pod(index: int, *, ready: bool = True, port: int = 8080, **status: Any) -> Pod:
    web = Container(name="c", ports=[ContainerPort(name="web", container_port=port)])
    conditions = [Condition("Ready", status="True" if ready else "False")]
    address = f"10.0.{index // 250}.{index % 250}"
    return Pod(
        metadata=ObjectMeta(name=f"p{index}", namespace="n", uid=f"u{index}", labels={"app": "web"}),
        spec=PodSpec(node_name="a", containers=[web]),
        status=PodStatus(**{"phase": "Running", "pod_ip": address, "conditions": conditions, **status}),
    )


def written(slices: list[Slice], start: int = 0) -> list[EndpointSlice]:
    """Slices as the server keeps them."""
    owner = OwnerReference(api_version="v1", kind="Service", name="web", uid="s", controller=True)
    return [
        EndpointSlice(
            metadata=ObjectMeta(
                name=one.name or f"web-{start + index}", labels=one.labels, owner_references=[owner]
            ),
            endpoints=[dict(endpoint) for endpoint in one.endpoints] or None,
            ports=list(one.ports) or None,
        )
        for index, one in enumerate(slices)
    ]


def test_a_named_port_of_no_container_leads_nowhere_and_a_sidecars_does() -> None:
    assert port_number(pod(1), {**HTTP, "targetPort": "other"}) is None
    sidecar = Container(name="s", restart_policy="Always", ports=[ContainerPort(name="x", container_port=7)])
    both = Pod(spec=PodSpec(init_containers=[sidecar]))
    assert port_number(both, {**HTTP, "targetPort": "x"}) == 7


def test_ports_stand_in_the_order_of_a_genuine_server() -> None:
    # As a 1.35.8 answered: see the scene `services` of tests/data/kubectl-kinds.yaml.
    ports: list[JsonObject] = [
        {"name": "http", "port": 8080, "protocol": "TCP"},
        {"name": "metrics", "port": 9100, "protocol": "TCP"},
        {"name": "tls", "port": 443, "protocol": "TCP", "appProtocol": "https"},
    ]
    assert [one["name"] for one in in_order(ports)] == ["http", "tls", "metrics"]


def test_a_service_without_pods_keeps_one_empty_slice() -> None:
    first = plan(service(), [], lambda _node: "", [])
    assert [(one.endpoints, one.ports) for one in first.create] == [([], [])]
    again = plan(service(), [], lambda _node: "", written(first.create))
    assert (again.create, again.update, again.delete) == ([], [], [])


def test_the_first_endpoints_go_into_the_empty_slice() -> None:
    empty = written(plan(service(), [], lambda _node: "", []).create)
    filled = plan(service(), [pod(1)], lambda _node: "", empty)
    assert [one.name for one in filled.update] == ["web-0"]
    assert (filled.create, filled.delete) == ([], [])


def test_a_slice_out_of_which_somebody_took_an_address_is_put_right() -> None:
    slices = written(plan(service(), [pod(1)], lambda _node: "", []).create)
    assert slices[0].endpoints is not None
    slices[0].endpoints[0]["addresses"] = None
    again = plan(service(), [pod(1)], lambda _node: "", slices)
    assert [one.endpoints[0]["addresses"] for one in (*again.create, *again.update)] == [["10.0.0.1"]]


def test_slices_hold_a_hundred_endpoints_and_who_stays_stays_where_it_is() -> None:
    pods = [pod(index) for index in range(250)]
    full = plan(service(), pods, lambda _node: "", [])
    assert [len(one.endpoints) for one in full.create] == [100, 100, 50]
    kept = written(full.create)
    less = plan(service(), pods[1:], lambda _node: "", kept)
    assert [(one.name, len(one.endpoints)) for one in less.update] == [("web-0", 99)]
    more = plan(service(), [*pods, pod(300)], lambda _node: "", kept)
    assert [(one.name, len(one.endpoints)) for one in more.update] == [("web-2", 51)]


@given(st.lists(st.sets(st.integers(0, 180), max_size=150), min_size=1, max_size=4))
def test_slices_follow_the_pods_whatever_comes_and_goes(rounds: list[set[int]]) -> None:
    slices: list[EndpointSlice] = []
    for made, numbers in enumerate(rounds):
        pods = [pod(index) for index in sorted(numbers)]
        planned = plan(service(), pods, lambda _node: "east", slices)
        gone = {one.metadata.name for one in planned.delete} | {one.name for one in planned.update}
        kept = [one for one in slices if one.metadata.name not in gone]
        slices = [*kept, *written(planned.update), *written(planned.create, 1000 * (made + 1))]
        shown = [one["targetRef"]["name"] for each in slices for one in each.endpoints or []]
        assert sorted(shown) == sorted(f"p{index}" for index in numbers)
        assert all(len(each.endpoints or []) <= MOST_ENDPOINTS for each in slices)
        calm = plan(service(), pods, lambda _node: "east", slices)
        assert (calm.create, calm.update, calm.delete) == ([], [], [])


@pytest.mark.parametrize(
    ("wish", "hints"),
    [
        (None, None),
        ("PreferSameZone", {"forZones": [{"name": "east"}]}),
        ("PreferSameNode", {"forZones": [{"name": "east"}], "forNodes": [{"name": "a"}]}),
    ],
)
def test_traffic_that_stays_near_has_hints(wish: str | None, hints: object) -> None:
    near = service(trafficDistribution=wish)
    made = plan(near, [pod(1), pod(2, ready=False)], lambda _node: "east", []).create
    assert [one.get("hints") for one in made[0].endpoints] == [hints, None]
    plain = written(plan(service(), [pod(1)], lambda _node: "east", []).create)
    changed = plan(near, [pod(1)], lambda _node: "east", plain).update
    assert [one.get("hints") for each in changed for one in each.endpoints] == ([hints] if hints else [])


def test_a_pod_of_a_node_that_is_not_there_waits() -> None:
    planned = plan(service(), [pod(1)], lambda _node: None, [])
    assert planned.astray == ["skipping Pod p1 for Service n/web: Node a Not Found"]
    assert plan(service(publishNotReadyAddresses=True), [pod(1)], lambda _node: None, []).astray == []


async def test_a_pod_of_a_node_that_is_not_there_is_told_of(cluster: Cluster) -> None:
    cluster.start(EndpointSlicesController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.apply(SERVICE, "web", {"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}})
    await cluster.apply(POD, "p", {**cluster.template(nodeName="a"), "metadata": {"labels": {"app": "web"}}})
    address: JsonObject = {"status": {"podIP": "10.0.0.5"}}
    await cluster.api.patch(POD, "p", address, namespace="default", subresource="status")
    await cluster.go_on()
    where = "Service default/web"
    assert await cluster.events("FailedToUpdateEndpointSlices") == [
        f"Error updating Endpoint Slices for {where}: skipping Pod p for {where}: Node a Not Found"
    ]


def test_who_asks_for_shares_gets_no_hints_of_the_newer_way() -> None:
    near = service(trafficDistribution="PreferClose")
    near.metadata.annotations["service.kubernetes.io/topology-mode"] = "Auto"
    made = plan(near, [pod(1)], lambda _node: "east", []).create
    assert "hints" not in made[0].endpoints[0]


async def test_slices_follow_the_pods_of_a_service(cluster: Cluster) -> None:
    cluster.start(EndpointSlicesController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.node("a", {"topology.kubernetes.io/zone": "east"})
    await cluster.apply(SERVICE, "web", {"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}})
    await cluster.apply(POD, "p", {**cluster.template(nodeName="a"), "metadata": {"labels": {"app": "web"}}})
    await cluster.go_on()
    (empty,) = await cluster.all(ENDPOINT_SLICE)
    assert not empty.endpoints
    await cluster.api.patch(
        POD, "p", {"status": {"podIP": "10.0.0.5"}}, namespace="default", subresource="status"
    )
    await cluster.go_on()
    (only,) = await cluster.all(ENDPOINT_SLICE)
    assert [(one["addresses"], one["zone"]) for one in only.endpoints] == [(["10.0.0.5"], "east")]
    await cluster.api.patch(SERVICE, "web", {"metadata": {"annotations": {"a": "b"}}}, namespace="default")
    await cluster.go_on()
    after = await cluster.api.get(ENDPOINT_SLICE, only.metadata.name, "default")
    assert after == only, "what changes nothing leads to no write"
    await cluster.api.delete(ENDPOINT_SLICE, only.metadata.name, namespace="default")
    await cluster.go_on()
    assert len(await cluster.all(ENDPOINT_SLICE)) == 1
