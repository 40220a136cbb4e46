"""Deployments on the twin's API server, with the ReplicaSet controller below them."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.loop.ownership import controller_of
from tonnage.model.json import JsonObject
from tonnage.twin.controllers.deployments.deployment import DeploymentController
from tonnage.twin.controllers.replicas.replica_set import ReplicaSetController
from tonnage.wire.kinds import DEPLOYMENT, REPLICA_SET, RESOURCE_QUOTA
from tonnage.wire.objects import Condition, Deployment, ReplicaSet

Cluster = Any
_REVISION = "deployment.kubernetes.io/revision"


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(ReplicaSetController(cluster.api, cluster.clock, cluster.informers).run())
    cluster.start(DeploymentController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


async def _deployment(cluster: Cluster) -> Deployment:
    [deployment] = await cluster.all(DEPLOYMENT)
    assert isinstance(deployment, Deployment)
    return deployment


async def _sizes(cluster: Cluster) -> dict[str, int]:
    """Replicas by the image of each ReplicaSet."""
    return {
        s.spec.template["spec"]["containers"][0]["image"]: s.spec.replicas
        for s in await cluster.all(REPLICA_SET)
    }


async def _patch(cluster: Cluster, spec: JsonObject) -> None:
    await cluster.api.patch(DEPLOYMENT, "web", {"spec": spec}, namespace="default")


def _condition(deployment: Deployment, condition_type: str) -> Condition:
    return next(c for c in deployment.status.conditions if c.type == condition_type)


async def test_a_deployment_comes_up_as_rollout_status_expects_it(running: Cluster) -> None:
    await running.apply(DEPLOYMENT, "web", running.workload(3))
    await running.go_on()
    deployment = await _deployment(running)
    status = deployment.status
    assert status.observed_generation == deployment.metadata.generation
    assert (status.replicas, status.updated_replicas, status.available_replicas) == (3, 3, 3)
    assert status.unavailable_replicas == 0
    assert deployment.metadata.annotations[_REVISION] == "1"
    [replica_set] = await running.all(REPLICA_SET)
    name = replica_set.metadata.name
    available = _condition(deployment, "Available")
    assert (available.status, available.reason) == ("True", "MinimumReplicasAvailable")
    assert available.message == "Deployment has minimum availability."
    progressing = _condition(deployment, "Progressing")
    assert (progressing.status, progressing.reason) == ("True", "NewReplicaSetAvailable")
    assert progressing.message == f'ReplicaSet "{name}" has successfully progressed.'
    assert await running.events("ScalingReplicaSet") == [f"Scaled up replica set {name} from 0 to 3"]
    digest = replica_set.metadata.labels["pod-template-hash"]
    assert name == f"web-{digest}"
    assert all(p.metadata.labels["pod-template-hash"] == digest for p in await running.pods())
    owner = controller_of(replica_set)
    assert owner is not None
    assert owner.name == "web"


async def test_before_the_pods_are_ready_it_is_progressing_and_not_available(running: Cluster) -> None:
    await running.apply(DEPLOYMENT, "web", running.workload(2))
    await running.clock.advance(1)
    deployment = await _deployment(running)
    assert deployment.status.unavailable_replicas == 2
    assert _condition(deployment, "Available").reason == "MinimumReplicasUnavailable"
    assert _condition(deployment, "Progressing").reason in ("ReplicaSetUpdated", "NewReplicaSetCreated")


async def test_a_rollout_replaces_all_pods_and_back_again_reuses_the_old_set(running: Cluster) -> None:
    await running.apply(DEPLOYMENT, "web", running.workload(4))
    await running.go_on()
    await _patch(running, {"template": running.template("nginx:2")})
    await running.go_on(3)
    assert await _sizes(running) == {"nginx:1": 0, "nginx:2": 4}
    assert (await _deployment(running)).metadata.annotations[_REVISION] == "2"
    assert {p.spec.containers[0].image for p in await running.pods()} == {"nginx:2"}
    await _patch(running, {"template": running.template("nginx:1")})
    await running.go_on(3)
    assert await _sizes(running) == {"nginx:1": 4, "nginx:2": 0}
    assert (await _deployment(running)).metadata.annotations[_REVISION] == "3"


async def test_a_rollout_waits_while_new_pods_are_not_ready(running: Cluster) -> None:
    await running.apply(DEPLOYMENT, "web", running.workload(4))
    await running.go_on()
    await _patch(running, {"template": running.template("nginx:2")})
    await running.clock.advance(30)
    sizes = await _sizes(running)
    assert sizes == {"nginx:1": 3, "nginx:2": 2}, "25 % over and 25 % under, and no further"
    deployment = await _deployment(running)
    assert _condition(deployment, "Available").status == "True"


async def test_a_rollout_that_stands_still_is_told_after_its_deadline(running: Cluster) -> None:
    await running.apply(DEPLOYMENT, "web", running.workload(1, progressDeadlineSeconds=60))
    await running.clock.advance(59)
    assert _condition(await _deployment(running), "Progressing").status == "True"
    await running.clock.advance(10)
    progressing = _condition(await _deployment(running), "Progressing")
    assert (progressing.status, progressing.reason) == ("False", "ProgressDeadlineExceeded")
    assert progressing.message.endswith("has timed out progressing.")
    await running.go_on()
    assert _condition(await _deployment(running), "Progressing").reason == "NewReplicaSetAvailable"


async def test_recreate_ends_all_old_pods_before_the_first_new_one(running: Cluster) -> None:
    await running.apply(DEPLOYMENT, "web", running.workload(2, strategy={"type": "Recreate"}))
    await running.go_on()
    old = {p.metadata.uid for p in await running.pods()}
    await _patch(running, {"template": running.template("nginx:2")})
    seen_together = False
    for _ in range(60):
        await running.clock.advance(0.05)
        images = {p.spec.containers[0].image for p in await running.pods()}
        seen_together |= len(images) == 2
        await running.make_ready()
    assert not seen_together
    pods = await running.pods()
    assert len(pods) == 2
    assert old.isdisjoint(p.metadata.uid for p in pods)


async def test_a_paused_deployment_is_not_rolled_out_until_it_is_resumed(running: Cluster) -> None:
    await running.apply(DEPLOYMENT, "web", running.workload(2))
    await running.go_on()
    await _patch(running, {"paused": True, "template": running.template("nginx:2")})
    await running.go_on()
    assert await _sizes(running) == {"nginx:1": 2}
    progressing = _condition(await _deployment(running), "Progressing")
    assert (progressing.status, progressing.reason) == ("Unknown", "DeploymentPaused")
    await _patch(running, {"paused": False})
    await running.go_on(3)
    assert await _sizes(running) == {"nginx:1": 0, "nginx:2": 2}


async def test_scaling_is_followed_and_told(running: Cluster) -> None:
    await running.apply(DEPLOYMENT, "web", running.workload(1))
    await running.go_on()
    await _patch(running, {"replicas": 5})
    await running.go_on()
    await _patch(running, {"replicas": 0})
    await running.go_on()
    [replica_set] = await running.all(REPLICA_SET)
    name = replica_set.metadata.name
    assert sorted(await running.events("ScalingReplicaSet")) == [
        f"Scaled down replica set {name} from 5 to 0",
        f"Scaled up replica set {name} from 0 to 1",
        f"Scaled up replica set {name} from 1 to 5",
    ]
    assert (await _deployment(running)).status.replicas == 0


async def test_old_sets_beyond_the_history_limit_go(running: Cluster) -> None:
    await running.apply(DEPLOYMENT, "web", running.workload(1, revisionHistoryLimit=1))
    for image in ("nginx:2", "nginx:3", "nginx:4"):
        await running.go_on(2)
        await _patch(running, {"template": running.template(image)})
    await running.go_on(2)
    assert await _sizes(running) == {"nginx:3": 0, "nginx:4": 1}


async def test_a_name_that_somebody_else_has_is_avoided(running: Cluster) -> None:
    await running.apply(DEPLOYMENT, "web", running.workload(1))
    await running.go_on()
    [mine] = await running.all(REPLICA_SET)
    await running.api.delete(DEPLOYMENT, "web", namespace="default", propagation="Orphan")
    foreign: ReplicaSet = mine
    await running.api.patch(
        REPLICA_SET,
        foreign.metadata.name,
        {"metadata": {"ownerReferences": None, "labels": {"app": "else"}}},
        namespace="default",
    )
    await running.api.patch(DEPLOYMENT, "web", {"metadata": {"finalizers": None}}, namespace="default")
    await running.apply(DEPLOYMENT, "web", running.workload(1))
    await running.go_on()
    deployment = await _deployment(running)
    assert deployment.status.collision_count == 1
    assert deployment.status.available_replicas == 1
    assert len(await running.all(REPLICA_SET)) == 2


async def test_one_whose_pods_are_refused_tells_first_that_it_has_a_set(running: Cluster) -> None:
    await running.apply(RESOURCE_QUOTA, "none", {"spec": {"hard": {"pods": "0"}}})
    await running.apply(DEPLOYMENT, "web", running.workload(1))
    await running.clock.advance(5)
    conditions = (await _deployment(running)).status.conditions
    assert [one.type for one in conditions] == ["Progressing", "Available", "ReplicaFailure"]
