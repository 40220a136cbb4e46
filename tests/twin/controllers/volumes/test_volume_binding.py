"""Claims and the volumes that somebody made for them."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.model.json import JsonObject
from tonnage.twin.controllers.volumes.binding import VolumeBindingController
from tonnage.twin.controllers.volumes.plan import best_volume, mismatch
from tonnage.wire.claims import PersistentVolume, PersistentVolumeClaim
from tonnage.wire.kinds import EVENT, PERSISTENT_VOLUME, STORAGE_CLASS, VOLUME_CLAIM
from tonnage.wire.objects import ObjectMeta

Cluster = Any


def volume(name: str, gib: int, *modes: str, phase: str = "Available", **spec: Any) -> PersistentVolume:
    given = {"capacity": {"storage": f"{gib}Gi"}, "accessModes": list(modes or ("ReadWriteOnce",)), **spec}
    meta = ObjectMeta(name=name, labels={"disk": name})
    return PersistentVolume(metadata=meta, spec=given, status={"phase": phase})


def claim(gib: int, **spec: Any) -> PersistentVolumeClaim:
    asked = {"requests": {"storage": f"{gib}Gi"}}
    meta = ObjectMeta(name="data", namespace="default", uid="u")
    return PersistentVolumeClaim(
        metadata=meta, spec={"accessModes": ["ReadWriteOnce"], "resources": asked, **spec}
    )


MINE: JsonObject = {"namespace": "default", "name": "data"}
SMALL, LARGE = volume("small", 2), volume("large", 9)


@pytest.mark.parametrize(
    ("asking", "there", "got"),
    [
        (claim(1), [LARGE, SMALL], "small"),
        (claim(3), [LARGE, SMALL], "large"),
        (claim(10), [LARGE, SMALL], ""),
        (claim(1, storageClassName="fast"), [LARGE, SMALL], ""),
        (claim(1, selector={"matchLabels": {"disk": "large"}}), [LARGE, SMALL], "large"),
        (claim(1), [volume("many", 1, "ReadWriteOnce", "ReadOnlyMany"), LARGE], "large"),
        (claim(1), [SMALL, volume("mine", 5, phase="Pending", claimRef=MINE)], "mine"),
        (claim(1), [volume("mine", 5, claimRef={**MINE, "uid": "another"})], ""),
        (claim(1), [volume("old", 5, phase="Released")], ""),
        (claim(1, volumeMode="Block"), [SMALL], ""),
        (claim(1, accessModes=["ReadWriteMany"]), [SMALL], ""),
    ],
    ids=[
        "the smallest that is large enough",
        "none too small",
        "none if all are",
        "none of another class",
        "only what the selector takes",
        "few access modes before little space",
        "a reserved one first",
        "none reserved for a namesake",
        "none that somebody had",
        "none of another mode",
        "none without the access mode",
    ],
)
def test_a_claim_gets_the_volume_that_suits_it_best(
    asking: PersistentVolumeClaim, there: list[PersistentVolume], got: str
) -> None:
    found = best_volume(asking, there, delayed=False)
    assert (found.metadata.name if found else "") == got


def test_before_a_pod_is_there_only_a_reserved_volume_is_taken() -> None:
    mine = volume("mine", 5, claimRef=MINE)
    assert best_volume(claim(1), [SMALL], delayed=True) is None
    assert best_volume(claim(1), [SMALL, mine], delayed=True) is mine


def test_a_volume_that_is_asked_for_by_name_says_what_is_wrong_with_it() -> None:
    assert mismatch(SMALL, claim(3, storageClassName="x")) == "requested PV is too small"
    assert mismatch(SMALL, claim(1, storageClassName="x", volumeMode="Block")) == (
        "storageClassName does not match"
    )
    assert mismatch(SMALL, claim(1, volumeMode="Block")) == "incompatible volumeMode"
    assert mismatch(SMALL, claim(1, accessModes=["ReadWriteMany"])) == "incompatible accessMode"
    assert mismatch(SMALL, claim(1)) == ""


ASKED: JsonObject = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
DISK: JsonObject = {
    "accessModes": ["ReadWriteOnce"],
    "capacity": {"storage": "2Gi"},
    "hostPath": {"path": "/disk"},
}


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    made = cluster.api, cluster.clock, cluster.informers
    cluster.start(VolumeBindingController(*made).run())
    await cluster.clock.settle()
    return cluster


async def seen(cluster: Cluster) -> tuple[PersistentVolume, PersistentVolumeClaim]:
    await cluster.clock.advance(2)
    found = await cluster.api.get(PERSISTENT_VOLUME, "disk")
    return found, await cluster.api.get(VOLUME_CLAIM, "data", "default")


async def test_both_say_that_they_are_bound_and_the_volume_is_released_with_its_claim(
    running: Cluster,
) -> None:
    await running.apply(VOLUME_CLAIM, "data", {"spec": ASKED})
    await running.clock.advance(2)
    assert await running.events("FailedBinding") == [
        "no persistent volumes available for this claim and no storage class is set"
    ]
    await running.apply(PERSISTENT_VOLUME, "disk", {"spec": DISK})
    disk, data = await seen(running)
    assert disk.status["phase"] == data.status["phase"] == "Bound"
    assert disk.spec["claimRef"]["uid"] == data.metadata.uid
    assert disk.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert data.spec["volumeName"] == "disk"
    assert data.status["capacity"] == {"storage": "2Gi"}
    assert set(data.metadata.annotations) == {
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
    }
    await running.api.patch(VOLUME_CLAIM, "data", {"metadata": {"finalizers": None}}, namespace="default")
    await running.api.delete(VOLUME_CLAIM, "data", namespace="default")
    await running.clock.advance(2)
    assert (await running.api.get(PERSISTENT_VOLUME, "disk")).status["phase"] == "Released"
    await running.apply(VOLUME_CLAIM, "data", {"spec": ASKED})
    _, again = await seen(running)
    assert again.status["phase"] == "Pending"


async def test_a_bound_claim_whose_volume_goes_is_lost(running: Cluster) -> None:
    await running.apply(PERSISTENT_VOLUME, "disk", {"spec": DISK})
    await running.apply(VOLUME_CLAIM, "data", {"spec": {**ASKED, "volumeName": "disk"}})
    _, data = await seen(running)
    assert set(data.metadata.annotations) == {"pv.kubernetes.io/bind-completed"}
    await running.api.patch(PERSISTENT_VOLUME, "disk", {"metadata": {"finalizers": None}})
    await running.api.delete(PERSISTENT_VOLUME, "disk")
    await running.clock.advance(2)
    assert (await running.api.get(VOLUME_CLAIM, "data", "default")).status == {"phase": "Lost"}
    assert len(await running.events("ClaimLost")) == 1


async def test_what_a_bound_claim_is_said_to_have_stays(running: Cluster) -> None:
    disk: JsonObject = {**DISK, "hostPath": None, "csi": {"driver": "a.test", "volumeHandle": "h"}}
    await running.apply(PERSISTENT_VOLUME, "disk", {"spec": {**disk, "volumeAttributesClassName": "gold"}})
    asked = {**ASKED, "volumeAttributesClassName": "gold"}
    await running.apply(VOLUME_CLAIM, "data", {"spec": asked})
    _, data = await seen(running)
    assert data.status["currentVolumeAttributesClassName"] == "gold"
    grown: JsonObject = {"status": {"capacity": {"storage": "1Gi"}}}
    await running.api.patch(VOLUME_CLAIM, "data", grown, namespace="default", subresource="status")
    _, data = await seen(running)
    assert data.status["capacity"] == {"storage": "1Gi"}


async def test_a_claim_that_waits_gets_the_class_that_is_the_default_by_now(running: Cluster) -> None:
    for name in ("data", "none"):
        chosen: JsonObject = {"storageClassName": ""} if name == "none" else {}
        await running.apply(VOLUME_CLAIM, name, {"spec": {**ASKED, **chosen}})
    await running.clock.advance(1)
    for name in ("b", "a"):
        marked = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
        await running.apply(STORAGE_CLASS, name, {"provisioner": "example.com/disks", "metadata": marked})
    await running.clock.advance(1)
    assert (await running.api.get(VOLUME_CLAIM, "data", "default")).spec.get("storageClassName") is None
    await running.clock.advance(20)
    assert (await running.api.get(VOLUME_CLAIM, "data", "default")).spec["storageClassName"] == "a"
    assert (await running.api.get(VOLUME_CLAIM, "none", "default")).spec["storageClassName"] == ""


async def test_a_claim_waits_for_its_first_pod_or_for_a_provisioner(running: Cluster) -> None:
    for name, mode in (("late", "WaitForFirstConsumer"), ("soon", "Immediate")):
        body: JsonObject = {"provisioner": "example.com/disks", "volumeBindingMode": mode}
        await running.apply(STORAGE_CLASS, name, body)
    for name in ("late", "soon", "none"):
        await running.apply(VOLUME_CLAIM, name, {"spec": {**ASKED, "storageClassName": name}})
    await running.clock.advance(2)
    assert len(await running.events("WaitForFirstConsumer")) == 1
    assert len(await running.events("ExternalProvisioning")) == 1
    assert await running.events("ProvisioningFailed") == ['storageclass.storage.k8s.io "none" not found']
    soon = await running.api.get(VOLUME_CLAIM, "soon", "default")
    assert set(soon.metadata.annotations.values()) == {"example.com/disks"}


@pytest.mark.parametrize(
    ("provisioner", "told"),
    [
        ("kubernetes.io/no-provisioner", "no volume plugin matched name: kubernetes.io/no-provisioner"),
        ("kubernetes.io/aws-ebs", "the external provisioner 'ebs.csi.aws.com' or"),
    ],
)
async def test_a_provisioner_that_was_part_of_kubernetes_is_another_by_now(
    running: Cluster, provisioner: str, told: str
) -> None:
    await running.apply(STORAGE_CLASS, "old", {"provisioner": provisioner})
    await running.apply(VOLUME_CLAIM, "data", {"spec": {**ASKED, "storageClassName": "old"}})
    await running.clock.advance(2)
    [event] = await running.all(EVENT)
    assert told in event.message


async def test_a_claim_says_every_15_seconds_what_it_waits_for_and_not_when_others_change(
    running: Cluster,
) -> None:
    await running.apply(VOLUME_CLAIM, "data", {"spec": ASKED})
    for number in range(5):
        await running.apply(PERSISTENT_VOLUME, f"other-{number}", {"spec": {**DISK, "storageClassName": "x"}})
        await running.clock.advance(1)
    await running.clock.advance(26)
    [event] = [event for event in await running.all(EVENT) if event.reason == "FailedBinding"]
    assert event.count == 3


@pytest.mark.parametrize(
    ("source", "phase", "why"),
    [
        pytest.param({"hostPath": {"path": "/tmp/disk"}}, "", "", id="below tmp of a host"),
        pytest.param(
            {"hostPath": {"path": "/disk"}},
            "Failed",
            "host_path deleter only supports /tmp/.+ but received provided /disk",
            id="elsewhere on a host",
        ),
        pytest.param(
            {"nfs": {"server": "s", "path": "/"}},
            "Failed",
            'error getting deleter volume plugin for volume "disk": no deletable volume plugin matched',
            id="what nobody can delete",
        ),
        pytest.param({"csi": {"driver": "d", "volumeHandle": "1"}}, "Released", "", id="a driver's own"),
    ],
)
async def test_what_becomes_of_a_volume_that_is_to_be_deleted_with_its_claim(
    running: Cluster, source: JsonObject, phase: str, why: str
) -> None:
    spec: JsonObject = {key: value for key, value in DISK.items() if key != "hostPath"}
    spec |= {**source, "persistentVolumeReclaimPolicy": "Delete"}
    await running.apply(PERSISTENT_VOLUME, "disk", {"metadata": {"finalizers": []}, "spec": spec})
    await running.apply(VOLUME_CLAIM, "data", {"spec": ASKED})
    await seen(running)
    for kind, name, namespace in ((VOLUME_CLAIM, "data", "default"), (PERSISTENT_VOLUME, "disk", None)):
        await running.api.patch(kind, name, {"metadata": {"finalizers": None}}, namespace=namespace)
    await running.api.delete(VOLUME_CLAIM, "data", namespace="default")
    await running.clock.advance(2)
    left = [
        (one.status["phase"], one.status.get("message", "")) for one in await running.all(PERSISTENT_VOLUME)
    ]
    assert left == ([(phase, why)] if phase else [])
    assert await running.events("VolumeFailedDelete") == ([why] if why else [])
