"""Custom resources as owners."""

from __future__ import annotations

from typing import Any

from tonnage.twin.controllers.garbage_collector import GarbageCollector
from tonnage.wire.kinds import CONFIG_MAP, CUSTOM_RESOURCE, Kind
from tonnage.wire.objects import Object

Cluster = Any


async def _names(cluster: Cluster) -> set[str]:
    return {obj.metadata.name for obj in await cluster.all(CONFIG_MAP, "default")}


async def test_custom_kinds_are_collected_as_soon_as_they_are_defined(cluster: Cluster) -> None:
    cluster.start(GarbageCollector(cluster.api, cluster.clock, cluster.informers).run())
    versions = [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }
    ]
    await cluster.apply(
        CUSTOM_RESOURCE,
        "jobs.a.test",
        {
            "spec": {
                "group": "a.test",
                "scope": "Namespaced",
                "names": {"plural": "jobs", "singular": "job", "kind": "Job", "listKind": "JobList"},
                "versions": versions,
            }
        },
    )
    await cluster.clock.advance(10)
    custom = Kind("a.test", "v1", "Job", "jobs", True, Object)
    owner = await cluster.apply(custom, "owner", {})
    reference = {"apiVersion": "a.test/v1", "kind": "Job", "name": "owner", "uid": owner.metadata.uid}
    await cluster.apply(CONFIG_MAP, "child", {"metadata": {"ownerReferences": [reference]}})
    await cluster.clock.advance(10)
    assert await _names(cluster) == {"child"}
    await cluster.api.delete(custom, "owner", namespace="default")
    await cluster.clock.advance(10)
    assert await _names(cluster) == set()
    await cluster.api.delete(CUSTOM_RESOURCE, "jobs.a.test")
    await cluster.clock.advance(10)
