"""ReplicaSets on the twin's API server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tonnage.loop.ownership import controller_of
from tonnage.twin.controllers.replicas.replica_set import (
    REPLICATION,
    ReplicaSetController,
    ReplicationManager,
)
from tonnage.twin.controllers.replicas.status import replica_set_status
from tonnage.wire.kinds import POD, REPLICA_SET
from tonnage.wire.objects import ReplicaSet

Cluster = Any


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(ReplicaSetController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


async def _size(cluster: Cluster, replicas: int) -> None:
    await cluster.api.patch(REPLICA_SET, "web", {"spec": {"replicas": replicas}}, namespace="default")
    await cluster.go_on()


async def test_as_many_pods_as_asked_for_owned_and_counted(running: Cluster) -> None:
    await running.apply(REPLICA_SET, "web", running.workload(3))
    await running.go_on()
    pods = await running.pods()
    assert len(pods) == 3
    for pod in pods:
        assert pod.metadata.name.startswith("web-")
        assert len(pod.metadata.name) == len("web-") + 5
        owner = controller_of(pod)
        assert owner is not None
        assert (owner.kind, owner.name, owner.block_owner_deletion) == ("ReplicaSet", "web", True)
    [replica_set] = await running.all(REPLICA_SET)
    status = replica_set.status
    assert (status.replicas, status.ready_replicas, status.available_replicas) == (3, 3, 3)
    assert (status.fully_labeled_replicas, status.observed_generation) == (3, 1)
    created = await running.events("SuccessfulCreate")
    assert sorted(created) == [f"Created pod: {name}" for name in sorted(p.metadata.name for p in pods)]


async def test_a_pod_that_goes_or_ends_is_replaced(running: Cluster) -> None:
    await running.apply(REPLICA_SET, "web", running.workload(2))
    await running.go_on()
    first, second = await running.pods()
    await running.api.delete(POD, first.metadata.name, namespace="default")
    await running.set_pod(second, ready=False, phase="Failed")
    await running.go_on()
    running_pods = [pod for pod in await running.pods() if pod.status.phase == "Running"]
    assert len(running_pods) == 2
    assert {first.metadata.uid, second.metadata.uid}.isdisjoint(p.metadata.uid for p in running_pods)


async def test_scaling_down_takes_the_pod_that_is_missed_least(running: Cluster) -> None:
    await running.apply(REPLICA_SET, "web", running.workload(3))
    await running.go_on()
    pods = await running.pods()
    await running.set_pod(pods[1], ready=False)
    await _size(running, 2)
    left = {pod.metadata.name for pod in await running.pods()}
    assert left == {pods[0].metadata.name, pods[2].metadata.name}
    assert await running.events("SuccessfulDelete") == [f"Deleted pod: {pods[1].metadata.name}"]
    await _size(running, 0)
    assert await running.pods() == []
    [replica_set] = await running.all(REPLICA_SET)
    assert replica_set.status.replicas == 0


async def test_orphans_that_match_are_adopted_and_strays_released(running: Cluster) -> None:
    await running.apply(POD, "orphan", running.template())
    await running.apply(REPLICA_SET, "web", running.workload(2))
    await running.go_on()
    pods = {pod.metadata.name: pod for pod in await running.pods()}
    assert len(pods) == 2
    assert controller_of(pods["orphan"]) is not None
    await running.api.patch(POD, "orphan", {"metadata": {"labels": {"app": "else"}}}, namespace="default")
    await running.go_on()
    pods = {pod.metadata.name: pod for pod in await running.pods()}
    assert len(pods) == 3
    assert controller_of(pods["orphan"]) is None


async def test_pods_that_the_server_refuses_are_told_once_per_try_and_stand_in_the_status(
    cluster: Cluster,
) -> None:
    refusing = cluster.refusing_pods('pods "web-x" is forbidden: exceeded quota: gpu')
    cluster.start(ReplicaSetController(refusing, cluster.clock, cluster.informers).run())
    await cluster.apply(REPLICA_SET, "web", cluster.workload(5))
    await cluster.clock.advance(1)
    [replica_set] = await cluster.all(REPLICA_SET)
    [condition] = replica_set.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("ReplicaFailure", "True", "FailedCreate")
    assert condition.message == 'pods "web-x" is forbidden: exceeded quota: gpu'
    told = await cluster.events("FailedCreate")
    assert told == ['Error creating: pods "web-x" is forbidden: exceeded quota: gpu']


async def test_min_ready_seconds_delay_availability(running: Cluster) -> None:
    await running.apply(REPLICA_SET, "web", running.workload(1, minReadySeconds=30))
    await running.go_on(2)
    [replica_set] = await running.all(REPLICA_SET)
    assert (replica_set.status.ready_replicas, replica_set.status.available_replicas) == (1, 0)
    await running.clock.advance(31)
    [replica_set] = await running.all(REPLICA_SET)
    assert replica_set.status.available_replicas == 1


async def test_a_stale_copy_makes_no_pod_twice(running: Cluster) -> None:
    """Sizes change faster than the controller can see its own pods."""
    await running.apply(REPLICA_SET, "web", running.workload(1))
    for replicas in (7, 2, 9, 4):
        await running.api.patch(REPLICA_SET, "web", {"spec": {"replicas": replicas}}, namespace="default")
        await running.clock.sleep(0)
    await running.go_on()
    assert len(await running.pods()) == 4
    created = len(await running.events("SuccessfulCreate"))
    assert created <= 9


def test_a_failure_that_stands_is_not_written_again() -> None:
    owner = ReplicaSet(api_version="apps/v1", kind="ReplicaSet")
    owner.spec.replicas = 1
    now = datetime(2026, 1, 1, tzinfo=UTC)
    first, _ = replica_set_status(owner, [], now, 'pods "web-abcde" is forbidden')
    owner.status = first
    again, _ = replica_set_status(owner, [], now, 'pods "web-fghij" is forbidden')
    assert again.conditions == first.conditions
    assert [condition.message for condition in first.conditions] == ['pods "web-abcde" is forbidden']


async def test_a_replication_controller_keeps_its_pods_by_a_map_of_labels(cluster: Cluster) -> None:
    orphan = {"metadata": {"labels": {"app": "web"}}, "spec": cluster.template()["spec"]}
    await cluster.apply(POD, "orphan", orphan)
    cluster.start(ReplicationManager(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.apply(REPLICATION, "web", {"spec": {"replicas": 3, "template": cluster.template()}})
    await cluster.go_on()
    pods = await cluster.pods()
    owners = [(owner.kind, owner.name) for pod in pods if (owner := controller_of(pod))]
    assert owners == [("ReplicationController", "web")] * 3
    assert "orphan" in [pod.metadata.name for pod in pods]
    [controller] = await cluster.all(REPLICATION)
    status = controller.status
    assert (status.replicas, status.ready_replicas, status.fully_labeled_replicas) == (3, 3, 3)
    assert status.terminating_replicas is None
    await cluster.api.patch(POD, "orphan", {"metadata": {"labels": {"app": "else"}}}, namespace="default")
    await cluster.api.patch(REPLICATION, "web", {"spec": {"replicas": 1}}, namespace="default")
    await cluster.go_on()
    released = await cluster.api.get(POD, "orphan", "default")
    assert controller_of(released) is None
    assert len(await cluster.pods()) == 2
