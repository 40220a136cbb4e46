"""Pods with volumes: which volumes their claims get, and where the pods go."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.loop.informer import Informers
from tonnage.model.json import JsonObject
from tonnage.twin.controllers.volumes.binding import VolumeBindingController
from tonnage.twin.controllers.volumes.ephemeral import EphemeralVolumeController
from tonnage.twin.scheduler.loop import Scheduler
from tonnage.wire import kinds

Cluster = Any
SELECTED = "volume.kubernetes.io/selected-node"


@pytest.fixture
async def scheduling(cluster: Cluster) -> Cluster:
    """Nodes a and b, the scheduler, and the controllers of volumes; `late` waits for pods, `made` as well."""
    api, clock = cluster.api, cluster.clock
    for name in ("a", "b"):
        amounts = {"cpu": "8", "memory": "64Gi", "pods": "110"}
        await cluster.apply(kinds.NODE, name, {"metadata": {"labels": {"host": name}}})
        await api.patch(kinds.NODE, name, {"spec": {"taints": None}})
        await api.patch(kinds.NODE, name, {"status": {"allocatable": amounts}}, subresource="status")
    for name, maker in (("late", "kubernetes.io/no-provisioner"), ("made", "example.com/disks")):
        body: JsonObject = {"provisioner": maker, "volumeBindingMode": "WaitForFirstConsumer"}
        await cluster.apply(kinds.STORAGE_CLASS, name, body)
    informers: Informers = cluster.informers
    cluster.start(VolumeBindingController(api, clock, informers).run())
    cluster.start(EphemeralVolumeController(api, clock, informers).run())
    cluster.start(Scheduler(api, clock, informers, version="1.35").run())
    await clock.settle()
    return cluster


def claim_of(size: int, name: str) -> JsonObject:
    asked: JsonObject = {"requests": {"storage": f"{size}Gi"}}
    return {"accessModes": ["ReadWriteOnce"], "resources": asked, "storageClassName": name}


async def claim(cluster: Cluster, name: str, size: int = 1, storage_class: str = "late") -> None:
    await cluster.apply(kinds.VOLUME_CLAIM, name, {"spec": claim_of(size, storage_class)})


async def disk(cluster: Cluster, name: str, size: int, node: str) -> None:
    requirement: JsonObject = {"key": "host", "operator": "In", "values": [node]}
    spec: JsonObject = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": f"{size}Gi"},
        "storageClassName": "late",
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}},
    }
    await cluster.apply(kinds.PERSISTENT_VOLUME, name, {"spec": spec})


async def pod(cluster: Cluster, name: str, *claims: str) -> None:
    volumes: list[Any] = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    await cluster.apply(kinds.POD, name, cluster.template(volumes=volumes))
    await cluster.clock.advance(5)


async def told(cluster: Cluster, name: str) -> tuple[str, str]:
    """A pod's node, and why it has none."""
    found = await cluster.api.get(kinds.POD, name, "default")
    why = [c.message for c in found.status.conditions if c.type == "PodScheduled"]
    return found.spec.node_name, why[0] if why else ""


async def test_a_pod_goes_where_all_its_claims_find_a_volume(scheduling: Cluster) -> None:
    await disk(scheduling, "a-large", 9, "a")
    for name, size in (("b-small", 1), ("b-middle", 3), ("b-large", 9)):
        await disk(scheduling, name, size, "b")
    await claim(scheduling, "two", 2)
    await claim(scheduling, "one", 1)
    await pod(scheduling, "p", "two", "one")
    assert await told(scheduling, "p") == ("b", "")
    claims = {one.metadata.name: one for one in await scheduling.all(kinds.VOLUME_CLAIM)}
    assert {name: one.spec["volumeName"] for name, one in claims.items()} == {
        "one": "b-small",
        "two": "b-middle",
    }
    assert {one.status["phase"] for one in claims.values()} == {"Bound"}
    found = await scheduling.api.get(kinds.POD, "p", "default")
    assert found.status.nominated_node_name == ""


async def test_a_pod_waits_for_a_volume_and_its_claim_says_for_whom_it_waits(scheduling: Cluster) -> None:
    await claim(scheduling, "data")
    await scheduling.clock.advance(1)
    await pod(scheduling, "p", "data")
    node, why = await told(scheduling, "p")
    assert node == ""
    assert why.startswith(
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
    )
    await scheduling.clock.advance(15)
    assert await scheduling.events("WaitForPodScheduled") == ["waiting for pod p to be scheduled"]
    await disk(scheduling, "late", 1, "a")
    await scheduling.clock.advance(15)
    assert (await told(scheduling, "p"))[0] == "a"


@pytest.mark.parametrize(
    ("storage_class", "why"),
    [
        pytest.param("none", "pod has unbound immediate PersistentVolumeClaims", id="of no class that is"),
        pytest.param("", 'persistentvolumeclaim "data" not found', id="that is not there"),
    ],
)
async def test_a_claim_that_keeps_a_pod_from_every_node(
    scheduling: Cluster, storage_class: str, why: str
) -> None:
    if storage_class:
        await claim(scheduling, "data", storage_class=storage_class)
    await pod(scheduling, "p", "data")
    assert await told(scheduling, "p") == ("", f"0/2 nodes are available: {why}. not found")


async def test_a_provisioner_is_told_the_node_and_the_pod_waits_for_it(scheduling: Cluster) -> None:
    await claim(scheduling, "data", storage_class="made")
    await pod(scheduling, "p", "data")
    found = await scheduling.api.get(kinds.POD, "p", "default")
    assert (found.spec.node_name, found.status.nominated_node_name) == ("", "a")
    data = await scheduling.api.get(kinds.VOLUME_CLAIM, "data", "default")
    assert data.metadata.annotations[SELECTED] == "a"
    assert len(await scheduling.events("ExternalProvisioning")) == 1
    await pod(scheduling, "other")
    assert (await told(scheduling, "other"))[0] != ""
    body: JsonObject = {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "made",
            "claimRef": {"namespace": "default", "name": "data", "uid": data.metadata.uid},
            "csi": {"driver": "example.com", "volumeHandle": "1"},
        }
    }
    await scheduling.apply(kinds.PERSISTENT_VOLUME, "made", body)
    await scheduling.clock.advance(5)
    assert (await told(scheduling, "p"))[0] == "a"


async def test_an_ephemeral_volume_has_a_claim_of_the_pods_own(scheduling: Cluster) -> None:
    await disk(scheduling, "a-disk", 1, "a")
    template: JsonObject = {"metadata": {"labels": {"for": "p"}}, "spec": claim_of(1, "late")}
    volume: JsonObject = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    await scheduling.apply(kinds.POD, "p", scheduling.template(volumes=[volume]))
    await scheduling.clock.advance(10)
    made = await scheduling.api.get(kinds.VOLUME_CLAIM, "p-scratch", "default")
    [owner] = made.metadata.owner_references
    assert (owner.kind, owner.name, owner.controller, made.metadata.labels) == (
        "Pod",
        "p",
        True,
        {"for": "p"},
    )
    assert (await told(scheduling, "p"))[0] == "a"
    await claim(scheduling, "q-scratch")
    await scheduling.apply(kinds.POD, "q", scheduling.template(volumes=[volume]))
    await scheduling.clock.advance(1)
    whose = "PVC default/q-scratch was not created for pod default/q (pod is not owner)"
    assert set(await scheduling.events("FailedBinding")) == {f"ephemeral volume scratch: {whose}"}
