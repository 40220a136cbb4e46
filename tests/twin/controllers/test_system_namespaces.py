"""The namespaces of the API server."""

from __future__ import annotations

from typing import Any

from tonnage.twin.controllers.system_namespaces import keep_system_namespaces
from tonnage.wire.kinds import NAMESPACE

Cluster = Any


async def test_a_system_namespace_that_is_deleted_comes_back(cluster: Cluster) -> None:
    cluster.start(keep_system_namespaces(cluster.api, cluster.clock))
    await cluster.go_on()
    before = await cluster.api.get(NAMESPACE, "kube-node-lease")
    await cluster.api.delete(NAMESPACE, "kube-node-lease")
    body = {"metadata": {"name": "kube-node-lease"}, "spec": {"finalizers": []}}
    await cluster.api.replace(NAMESPACE, body, subresource="finalize")
    await cluster.go_on(60)
    anew = await cluster.api.get(NAMESPACE, "kube-node-lease")
    assert anew.metadata.uid != before.metadata.uid
    assert anew.metadata.labels == {"kubernetes.io/metadata.name": "kube-node-lease"}
