"""The Lease of the API server."""

from __future__ import annotations

import asyncio
from typing import Any

from tonnage.twin.controllers.server_lease import ServerLeaseController, lease_name
from tonnage.wire.kinds import LEASE

Cluster = Any


async def test_the_server_renews_its_lease_and_makes_it_anew(cluster: Cluster) -> None:
    cluster.start(ServerLeaseController(cluster.api, cluster.clock, "vm").run())
    await cluster.go_on()
    [lease] = (await cluster.api.list(LEASE, namespace="kube-system")).items
    assert lease.metadata.labels["apiserver.kubernetes.io/identity"] == "kube-apiserver"
    assert lease.spec.holder_identity.startswith(f"{lease.metadata.name}_")
    await cluster.go_on(10)
    renewed = await cluster.api.get(LEASE, lease.metadata.name, "kube-system")
    assert renewed.spec.renew_time > lease.spec.renew_time
    assert renewed.spec.holder_identity == lease.spec.holder_identity
    await cluster.api.delete(LEASE, lease.metadata.name, namespace="kube-system")
    await cluster.go_on(10)
    [anew] = (await cluster.api.list(LEASE, namespace="kube-system")).items
    assert anew.metadata.name == lease.metadata.name


async def test_a_lease_of_a_server_that_is_gone_goes_when_its_hour_is_over(cluster: Cluster) -> None:
    old = asyncio.create_task(ServerLeaseController(cluster.api, cluster.clock, "old").run())
    await cluster.go_on()
    old.cancel()
    other = {"metadata": {"name": "mine"}, "spec": {"holderIdentity": "me"}}
    await cluster.api.create(LEASE, other, namespace="kube-system")
    cluster.start(ServerLeaseController(cluster.api, cluster.clock, "new").run())
    await cluster.go_on()
    names = {one.metadata.name for one in (await cluster.api.list(LEASE, namespace="kube-system")).items}
    assert names == {"mine", lease_name("old"), lease_name("new")}
    await cluster.clock.advance(7300)
    names = {one.metadata.name for one in (await cluster.api.list(LEASE, namespace="kube-system")).items}
    assert names == {"mine", lease_name("new")}
