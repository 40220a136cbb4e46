"""Every address of a service is an IPAddress, for as long as the service has it."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.twin.controllers.service_addresses import IP_ADDRESS, ServiceAddressesController
from tonnage.wire.kinds import SERVICE

Cluster = Any
PORTS: list[JsonObject] = [{"port": 80}]


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(ServiceAddressesController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


async def known(cluster: Cluster) -> dict[str, JsonObject]:
    await cluster.clock.advance(1)
    return {one.metadata.name: one.spec["parentRef"] for one in (await cluster.api.list(IP_ADDRESS)).items}


async def service(cluster: Cluster, name: str, **spec: Any) -> str:
    await cluster.apply(SERVICE, name, {"spec": {"ports": PORTS, **spec}})
    return str((await cluster.api.get(SERVICE, name, "default")).spec["clusterIP"])


async def test_an_address_comes_and_goes_with_its_service(running: Cluster) -> None:
    before = await known(running)
    address = await service(running, "web")
    await service(running, "headless", clusterIP="None")
    parent = {"resource": "services", "namespace": "default", "name": "web"}
    assert await known(running) == {**before, address: parent}
    [found] = [one for one in (await running.api.list(IP_ADDRESS)).items if one.metadata.name == address]
    assert found.metadata.labels == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    await running.api.delete(SERVICE, "web", namespace="default")
    assert await known(running) == before
    assert await service(running, "other", clusterIP=address) == address
    assert (await known(running))[address] == {**parent, "name": "other"}


async def test_an_address_that_is_deleted_is_made_again(running: Cluster) -> None:
    address = await service(running, "web")
    before = await known(running)
    await running.api.delete(IP_ADDRESS, address)
    assert await known(running) == before


async def test_what_somebody_else_has_taken_no_service_gets(running: Cluster) -> None:
    taken = "10.96.7.7"
    parent: JsonObject = {"group": "example.com", "resource": "gateways", "name": "one"}
    body: JsonObject = {"metadata": {"name": taken}, "spec": {"parentRef": parent}}
    await running.api.create(IP_ADDRESS, body)
    with pytest.raises(ApiError, match="provided IP is already allocated"):
        await service(running, "web", clusterIP=taken)
    assert (await known(running))[taken] == parent
