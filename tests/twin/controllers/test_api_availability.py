"""What stands in the way of APIServices of other servers."""

from __future__ import annotations

from typing import Any

from tonnage.twin.controllers.api_availability import API_SERVICE, ApiAvailabilityController
from tonnage.wire.kinds import ENDPOINT_SLICE, SERVICE

Cluster = Any


async def told(cluster: Cluster) -> tuple[str, str]:
    await cluster.go_on()
    [one] = (await cluster.api.get(API_SERVICE, "v1.example.com")).status["conditions"]
    assert (one["type"], one["status"]) == ("Available", "False")
    return one["reason"], one["message"]


async def test_what_is_missing_of_an_apis_service_is_told(cluster: Cluster) -> None:
    cluster.start(ApiAvailabilityController(cluster.api, cluster.clock, cluster.informers).run())
    service = {"name": "s", "namespace": "default"}
    priorities = {"groupPriorityMinimum": 100, "versionPriority": 10, "insecureSkipTLSVerify": True}
    spec = {"group": "example.com", "version": "v1", "service": service, **priorities}
    await cluster.apply(API_SERVICE, "v1.example.com", {"spec": spec})
    assert await told(cluster) == ("ServiceNotFound", 'service/s in "default" is not present')
    await cluster.apply(SERVICE, "s", {"spec": {"ports": [{"port": 80, "name": "w"}]}}, namespace="default")
    words = 'service/s in "default" is not listening on port 443'
    assert await told(cluster) == ("ServicePortError", words)
    ports = {"spec": {"ports": [{"port": 443, "name": "api"}]}}
    await cluster.api.patch(SERVICE, "s", ports, namespace="default")
    words = 'cannot find endpointslices for service/s in "default"'
    assert await told(cluster) == ("EndpointsNotFound", words)
    metadata = {"name": "s", "labels": {"kubernetes.io/service-name": "s"}}
    slice_of = {
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [{"port": 1, "name": "api"}],
    }
    await cluster.apply(ENDPOINT_SLICE, "s", slice_of, namespace="default")
    words = 'endpointslices for service/s in "default" have no addresses with port name "api"'
    assert await told(cluster) == ("MissingEndpoints", words)
