"""Volumes and claims in use outlive their deletion."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.model.json import JsonObject
from tonnage.twin.controllers.volumes.protection import (
    CLAIM,
    CLASS,
    VOLUME,
    VolumeProtectionController,
)
from tonnage.wire.kinds import POD

Cluster = Any
ASKED: JsonObject = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(VolumeProtectionController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


async def there(cluster: Cluster, kind: Any, name: str, namespace: str | None = None) -> bool:
    await cluster.clock.advance(1)
    return name in [one.metadata.name for one in (await cluster.api.list(kind, namespace=namespace)).items]


async def test_a_claim_goes_with_the_last_pod_on_a_node_that_names_it(running: Cluster) -> None:
    await running.apply(CLAIM, "data", {"spec": ASKED})
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "x"}], "volumes": volumes}
    await running.apply(POD, "user", {"spec": spec})
    await running.api.delete(CLAIM, "data", namespace="default")
    assert await there(running, CLAIM, "data", "default")
    await running.api.delete(POD, "user", namespace="default", grace_period_s=0)
    assert not await there(running, CLAIM, "data", "default")


async def test_a_claim_that_no_node_uses_goes_at_once(running: Cluster) -> None:
    await running.apply(CLAIM, "data", {"spec": ASKED})
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    spec = {"containers": [{"name": "c", "image": "x"}], "volumes": volumes}
    await running.apply(POD, "waiting", {"spec": spec})
    await running.api.delete(CLAIM, "data", namespace="default")
    assert not await there(running, CLAIM, "data", "default")


async def test_a_bound_volume_stays_until_it_is_released(running: Cluster) -> None:
    spec: JsonObject = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    await running.apply(VOLUME, "disk", {"spec": {**spec, "hostPath": {"path": "/disk"}}})
    for phase, left in (("Bound", True), ("Released", False)):
        await running.api.patch(VOLUME, "disk", {"status": {"phase": phase}}, subresource="status")
        if left:
            await running.api.delete(VOLUME, "disk")
        assert await there(running, VOLUME, "disk") is left


async def test_a_class_of_attributes_stays_while_a_claim_has_it(running: Cluster) -> None:
    await running.apply(CLASS, "fast", {"driverName": "d.example.com", "parameters": {"a": "b"}})
    await running.apply(CLAIM, "data", {"spec": {**ASKED, "volumeAttributesClassName": "fast"}})
    await running.api.delete(CLASS, "fast")
    assert await there(running, CLASS, "fast")
    await running.api.delete(CLAIM, "data", namespace="default")
    assert not await there(running, CLASS, "fast")


@pytest.mark.parametrize("kind", [CLAIM, VOLUME, CLASS], ids=lambda kind: kind.kind)
async def test_what_has_lost_its_protection_gets_it_again(running: Cluster, kind: Any) -> None:
    volume: JsonObject = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    bodies: dict[Any, JsonObject] = {
        CLAIM: {"spec": ASKED},
        VOLUME: {"spec": {**volume, "hostPath": {"path": "/disk"}}},
        CLASS: {"driverName": "d.example.com", "parameters": {"a": "b"}},
    }
    await running.apply(kind, "x", bodies[kind])
    namespace = "default" if kind is CLAIM else None
    await running.api.patch(kind, "x", {"metadata": {"finalizers": None}}, namespace=namespace)
    await running.clock.advance(1)
    assert len((await running.api.get(kind, "x", namespace)).metadata.finalizers) == 1
