"""The Lease of the API server."""

from __future__ import annotations

from typing import Any

from tonnage.twin.controllers.server_lease import ServerLeaseController
from tonnage.wire.kinds import LEASE

Cluster = Any


async def test_the_server_renews_its_lease_and_makes_it_anew(cluster: Cluster) -> None:
    cluster.start(ServerLeaseController(cluster.api, cluster.clock).run())
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
