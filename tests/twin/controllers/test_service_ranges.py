"""Ranges of services' addresses: ready, needed, gone."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.model.errors import ApiError
from tonnage.twin.controllers.service_addresses import ServiceAddressesController
from tonnage.twin.controllers.service_ranges import SERVICE_CIDR, ServiceRangesController
from tonnage.wire.kinds import SERVICE

Cluster = Any


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    loop = ServiceRangesController(cluster.api, cluster.clock, cluster.informers, cluster.api)
    cluster.start(loop.run())
    cluster.start(ServiceAddressesController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


async def told(cluster: Cluster, name: str) -> tuple[str, str]:
    await cluster.clock.advance(1)
    [condition] = (await cluster.api.get(SERVICE_CIDR, name)).status["conditions"]
    return condition["status"], condition["reason"]


async def test_a_new_range_is_held_and_ready_and_goes_when_nobody_needs_it(running: Cluster) -> None:
    await running.apply(SERVICE_CIDR, "more", {"spec": {"cidrs": ["10.200.0.0/24", "fd00::/120"]}})
    assert await told(running, "more") == ("True", "")
    found = await running.api.get(SERVICE_CIDR, "more")
    assert found.metadata.finalizers == ["networking.k8s.io/service-cidr-finalizer"]
    await running.api.delete(SERVICE_CIDR, "more")
    await running.clock.advance(8)
    assert await told(running, "more") == ("True", "")
    await running.clock.advance(3)
    with pytest.raises(ApiError, match="not found"):
        await running.api.get(SERVICE_CIDR, "more")


async def test_a_range_stays_for_as_long_as_a_service_has_an_address_of_it_alone(running: Cluster) -> None:
    await running.apply(SERVICE, "web", {"spec": {"ports": [{"port": 80}]}})
    await running.clock.advance(1)
    await running.api.delete(SERVICE_CIDR, "kubernetes")
    assert await told(running, "kubernetes") == ("False", "Terminating")
    [own] = (await running.api.get(SERVICE_CIDR, "kubernetes")).spec["cidrs"]
    await running.apply(SERVICE_CIDR, "again", {"spec": {"cidrs": [own]}})
    await running.clock.advance(12)
    with pytest.raises(ApiError, match="not found"):
        await running.api.get(SERVICE_CIDR, "kubernetes")
    assert await told(running, "again") == ("True", "")
