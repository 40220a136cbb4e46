"""StatefulSets on the twin: order, names that stay, claims and rolling updates."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.twin.controllers.stateful.stateful_set import StatefulSetController
from tonnage.wire.kinds import CONTROLLER_REVISION, POD, RESOURCE_QUOTA, STATEFUL_SET, VOLUME_CLAIM
from tonnage.wire.workloads import StatefulSetStatus

Cluster = Any
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(StatefulSetController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


async def start(cluster: Cluster, replicas: int = 3, **spec: Any) -> None:
    body = cluster.workload(replicas, serviceName="web", **spec)
    await cluster.apply(STATEFUL_SET, "web", body)
    await cluster.clock.settle()


async def change(cluster: Cluster, spec: dict[str, Any]) -> None:
    await cluster.api.patch(STATEFUL_SET, "web", {"spec": spec}, namespace="default")
    await cluster.clock.settle()


async def names(cluster: Cluster) -> list[str]:
    return sorted(pod.metadata.name for pod in await cluster.pods())


async def images(cluster: Cluster) -> dict[str, str]:
    return {pod.metadata.name: pod.spec.containers[0].image for pod in await cluster.pods()}


async def status(cluster: Cluster) -> StatefulSetStatus:
    found: StatefulSetStatus = (await cluster.api.get(STATEFUL_SET, "web", "default")).status
    return found


async def step(cluster: Cluster) -> None:
    """What runs becomes ready, what is to go goes, once."""
    await cluster.make_ready()
    await cluster.clock.settle()


async def test_pods_come_one_after_the_other_and_go_the_other_way_round(running: Cluster) -> None:
    await start(running)
    for count in (1, 2, 3):
        assert await names(running) == [f"web-{n}" for n in range(count)]
        await step(running)
    assert (await status(running)).ready_replicas == 3
    await change(running, {"replicas": 1})
    await step(running)
    assert await names(running) == ["web-0"]
    gone = [f"Delete Pod web-{n} in StatefulSet web successful" for n in (2, 1)]
    assert await running.events("SuccessfulDelete") == gone


async def test_in_parallel_all_come_and_go_at_once(running: Cluster) -> None:
    await start(running, podManagementPolicy="Parallel", ordinals={"start": 4})
    assert await names(running) == ["web-4", "web-5", "web-6"]
    await step(running)
    await change(running, {"replicas": 0})
    assert await names(running) == []


async def test_a_lost_pod_comes_back_under_its_name(running: Cluster) -> None:
    await start(running, 2)
    await running.go_on()
    old = await running.api.get(POD, "web-0", "default")
    await running.api.delete(POD, "web-0", namespace="default", grace_period_s=0)
    await running.go_on()
    new = await running.api.get(POD, "web-0", "default")
    assert new.metadata.uid != old.metadata.uid
    assert new.metadata.labels["apps.kubernetes.io/pod-index"] == "0"
    failed = await running.api.get(POD, "web-1", "default")
    await running.set_pod(failed, ready=False, phase="Failed")
    await running.go_on()
    assert (await running.api.get(POD, "web-1", "default")).metadata.uid != failed.metadata.uid


async def test_an_update_rolls_from_the_last_pod_on_and_stops_at_the_partition(running: Cluster) -> None:
    await start(running)
    await running.go_on()
    await change(running, {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}})
    await change(running, {"template": running.template("nginx:2")})
    await running.go_on()
    assert await images(running) == {"web-0": "nginx:1", "web-1": "nginx:2", "web-2": "nginx:2"}
    found = await status(running)
    assert (found.current_replicas, found.updated_replicas) == (1, 2)
    assert found.current_revision != found.update_revision
    # A pod below the partition comes back as it was.
    await running.api.delete(POD, "web-0", namespace="default", grace_period_s=0)
    await running.go_on()
    assert (await images(running))["web-0"] == "nginx:1"
    await change(running, {"updateStrategy": {"rollingUpdate": {"partition": 0}}})
    await running.go_on()
    assert set((await images(running)).values()) == {"nginx:2"}
    found = await status(running)
    assert found.current_revision == found.update_revision


async def test_a_sick_update_stops_at_its_first_pod(running: Cluster) -> None:
    await start(running)
    await running.go_on()
    await change(running, {"template": running.template("broken:1")})
    for pod in await running.all(POD):
        if pod.metadata.deletion_timestamp is not None:
            await running.api.delete(POD, pod.metadata.name, namespace="default", grace_period_s=0)
    await running.clock.advance(30)
    assert await images(running) == {"web-0": "nginx:1", "web-1": "nginx:1", "web-2": "broken:1"}


async def test_pods_updated_by_hand(running: Cluster) -> None:
    await start(running, 2, updateStrategy={"type": "OnDelete"})
    await running.go_on()
    await change(running, {"template": running.template("nginx:2")})
    await running.go_on()
    assert set((await images(running)).values()) == {"nginx:1"}
    await running.api.delete(POD, "web-0", namespace="default", grace_period_s=0)
    await running.go_on()
    assert (await images(running))["web-0"] == "nginx:2"


async def test_a_template_that_comes_back_is_its_old_revision_with_a_new_number(running: Cluster) -> None:
    await start(running, 1, revisionHistoryLimit=1)
    for image in ("nginx:2", "nginx:3", "nginx:2"):
        await running.go_on()
        await change(running, {"template": running.template(image)})
    await running.go_on()
    revisions = await running.all(CONTROLLER_REVISION)
    assert sorted(one.revision for one in revisions) == [3, 4]


@pytest.mark.parametrize(
    ("policy", "owner"),
    [
        pytest.param({}, None, id="kept"),
        pytest.param({"whenDeleted": "Delete", "whenScaled": "Retain"}, "StatefulSet", id="the set's"),
        pytest.param({"whenDeleted": "Retain", "whenScaled": "Delete"}, None, id="not yet the pod's"),
    ],
)
async def test_claims_are_made_once_and_kept(running: Cluster, policy: Any, owner: str | None) -> None:
    given = {"persistentVolumeClaimRetentionPolicy": policy} if policy else {}
    await start(running, 2, volumeClaimTemplates=[CLAIM], **given)
    await running.go_on()
    claims = await running.all(VOLUME_CLAIM)
    assert [claim.metadata.name for claim in claims] == ["data-web-0", "data-web-1"]
    kinds = {one.kind for claim in claims for one in claim.metadata.owner_references}
    assert kinds == ({owner} if owner else set())
    pod = await running.api.get(POD, "web-1", "default")
    assert pod.spec.volumes[0]["persistentVolumeClaim"] == {"claimName": "data-web-1"}
    if policy.get("whenScaled") == "Delete":
        await change(running, {"replicas": 1})
        claim = await running.api.get(VOLUME_CLAIM, "data-web-1", "default")
        assert [one.kind for one in claim.metadata.owner_references] == ["Pod"]


@pytest.mark.parametrize(
    ("management", "owners"),
    [
        pytest.param("OrderedReady", set(), id="in order: once those that stay are available"),
        pytest.param("Parallel", {"Pod"}, id="in parallel: at once"),
    ],
)
async def test_claims_of_pods_that_are_too_many_get_their_owners(
    running: Cluster, management: str, owners: set[str]
) -> None:
    policy = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    more = {"persistentVolumeClaimRetentionPolicy": policy, "podManagementPolicy": management}
    await start(running, 2, volumeClaimTemplates=[CLAIM], **more)
    await running.go_on()
    await running.api.delete(POD, "web-0", namespace="default", grace_period_s=0)
    await running.clock.settle()
    await change(running, {"replicas": 1})
    claim = await running.api.get(VOLUME_CLAIM, "data-web-1", "default")
    assert {one.kind for one in claim.metadata.owner_references} == owners


async def test_pods_must_be_available_for_long_enough(running: Cluster) -> None:
    await start(running, 2, minReadySeconds=10)
    await step(running)
    await running.clock.advance(8)
    assert await names(running) == ["web-0"]
    await running.clock.advance(3)
    assert await names(running) == ["web-0", "web-1"]


async def test_claims_that_are_refused_keep_their_pod_away_and_one_that_is_there_is_asked_for_no_more(
    running: Cluster,
) -> None:
    body = {"spec": {"hard": {"persistentvolumeclaims": "1"}}}
    await running.apply(RESOURCE_QUOTA, "few", body)
    await start(running, replicas=2, volumeClaimTemplates=[CLAIM], podManagementPolicy="Parallel")
    await running.clock.advance(1)
    assert await names(running) == ["web-0"]
    refused = await running.events("FailedCreate")
    assert refused[0].startswith("Create Claim data-web-1 for Pod web-1 in StatefulSet web failed error: ")
    why = "Create Pod web-1 in StatefulSet web failed error: failed to create PVC data-web-1: "
    assert refused[1].startswith(why)
    await running.api.delete(POD, "web-0", namespace="default", grace_period_s=0)
    await running.clock.advance(2)
    assert await names(running) == ["web-0"]


async def test_claims_have_their_owner_before_their_pod_is_let_in(running: Cluster) -> None:
    await running.apply(RESOURCE_QUOTA, "none", {"spec": {"hard": {"pods": "0"}}})
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    await start(running, 1, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy)
    await running.clock.advance(1)
    assert await names(running) == []
    [claim] = await running.all(VOLUME_CLAIM)
    assert [one.kind for one in claim.metadata.owner_references] == ["StatefulSet"]
