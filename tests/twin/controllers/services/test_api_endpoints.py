"""The API server's own Service, and where it leads."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.model.kubernetes.well_known import KUBERNETES_SERVICE
from tonnage.twin.apiserver.bootstrap import api_service, publish_api
from tonnage.twin.controllers.services.api_endpoints import ApiEndpointsController
from tonnage.wire.kinds import ENDPOINT_SLICE, ENDPOINTS, SERVICE

Cluster = Any
NAMESPACE, NAME = KUBERNETES_SERVICE


def published(cluster: Cluster, port: int) -> None:
    publish_api(cluster.server.store, cluster.clock, lambda: "u", lambda obj: obj, port)


def start(cluster: Cluster, address: str) -> None:
    loop = ApiEndpointsController(cluster.api, cluster.clock, cluster.informers, api_service, address)
    cluster.start(loop.run())


@pytest.mark.parametrize(("address", "family"), [("10.0.0.7", "IPv4"), ("fd00::7", "IPv6")])
async def test_the_service_leads_to_the_server(cluster: Cluster, address: str, family: str) -> None:
    published(cluster, 6443)
    start(cluster, address)
    await cluster.go_on()
    found = await cluster.api.get(ENDPOINTS, NAME, NAMESPACE)
    port = {"name": "https", "port": 6443, "protocol": "TCP"}
    assert found.subsets == [{"addresses": [{"ip": address}], "ports": [port]}]
    assert found.metadata.labels == {"endpointslice.kubernetes.io/skip-mirror": "true"}
    slices = await cluster.api.get(ENDPOINT_SLICE, NAME, NAMESPACE)
    assert (slices.address_type, slices.ports) == (family, [port])
    assert slices.endpoints == [{"addresses": [address], "conditions": {"ready": True}}]
    assert slices.metadata.labels == {"kubernetes.io/service-name": "kubernetes"}


async def test_what_is_deleted_or_changed_of_it_is_put_right(cluster: Cluster) -> None:
    published(cluster, 6443)
    start(cluster, "10.0.0.7")
    await cluster.go_on()
    before = [await cluster.api.get(kind, NAME, NAMESPACE) for kind in (SERVICE, ENDPOINTS, ENDPOINT_SLICE)]
    for kind in (SERVICE, ENDPOINT_SLICE):
        await cluster.api.delete(kind, NAME, namespace=NAMESPACE)
    await cluster.api.patch(ENDPOINTS, NAME, {"subsets": None}, namespace=NAMESPACE)
    await cluster.go_on(10)
    after = [await cluster.api.get(kind, NAME, NAMESPACE) for kind in (SERVICE, ENDPOINTS, ENDPOINT_SLICE)]
    service, endpoints, slices = after
    assert service.spec == before[0].spec
    assert service.metadata.uid != before[0].metadata.uid
    assert endpoints.subsets == before[1].subsets
    assert slices.endpoints == before[2].endpoints


async def test_a_server_that_is_reached_nowhere_has_a_service_alone(cluster: Cluster) -> None:
    published(cluster, 6443)
    start(cluster, "")
    await cluster.go_on()
    await cluster.api.delete(SERVICE, NAME, namespace=NAMESPACE)
    await cluster.go_on(10)
    assert [one.metadata.name for one in await cluster.all(SERVICE)] == [NAME]
    assert await cluster.all(ENDPOINTS) == []
