"""All controllers together, as the twin runs them."""

from __future__ import annotations

from typing import Any

from tonnage.twin.controllers.controller_manager import run_controllers
from tonnage.wire.kinds import CONTROLLER_REVISION, DAEMON_SET, DEPLOYMENT, NAMESPACE, NODE, POD, REPLICA_SET

Cluster = Any


async def test_a_deployment_takes_its_sets_and_pods_with_it(cluster: Cluster) -> None:
    cluster.start(run_controllers(cluster.server.of_controller, cluster.clock, cluster.informers))
    await cluster.apply(DEPLOYMENT, "web", cluster.workload(3))
    await cluster.go_on()
    assert len(await cluster.pods()) == 3
    await cluster.api.delete(DEPLOYMENT, "web", namespace="default")
    await cluster.go_on()
    assert [await cluster.all(kind) for kind in (DEPLOYMENT, REPLICA_SET, POD)] == [[], [], []]


async def test_a_namespace_ends_although_its_controllers_would_fill_it_again(cluster: Cluster) -> None:
    cluster.start(run_controllers(cluster.server.of_controller, cluster.clock, cluster.informers))
    await cluster.node("a100-0")
    await cluster.apply(NAMESPACE, "ml", {})
    await cluster.apply(DEPLOYMENT, "web", cluster.workload(3), namespace="ml")
    daemon = cluster.workload(0)
    del daemon["spec"]["replicas"]
    await cluster.apply(DAEMON_SET, "agent", daemon, namespace="ml")
    await cluster.go_on()
    assert len(await cluster.pods()) == 4
    await cluster.api.delete(NAMESPACE, "ml")
    await cluster.go_on(10)
    left = [
        obj
        for kind in (DEPLOYMENT, REPLICA_SET, DAEMON_SET, CONTROLLER_REVISION, POD)
        for obj in await cluster.all(kind)
    ]
    assert left == []
    assert "ml" not in {namespace.metadata.name for namespace in await cluster.all(NAMESPACE)}


async def test_cut_watches_delay_a_rollout_and_change_nothing_else(cluster: Cluster) -> None:
    cluster.start(run_controllers(cluster.server.of_controller, cluster.clock, cluster.informers))
    await cluster.apply(DEPLOYMENT, "web", cluster.workload(5))
    await cluster.go_on()
    template = {"spec": {"template": cluster.template("nginx:2")}}
    await cluster.api.patch(DEPLOYMENT, "web", template, namespace="default")
    for _ in range(40):
        cluster.server.store.cut_watches()
        await cluster.clock.advance(0.3)
        await cluster.make_ready()
    await cluster.go_on(20)
    assert sorted(pod.spec.containers[0].image for pod in await cluster.pods()) == ["nginx:2"] * 5
    [deployment] = await cluster.all(DEPLOYMENT)
    assert deployment.status.available_replicas == deployment.status.updated_replicas == 5
    assert len(await cluster.all(REPLICA_SET)) == 2


async def test_restarted_controllers_go_on_where_they_were(cluster: Cluster) -> None:
    cluster.start(run_controllers(cluster.server.of_controller, cluster.clock, cluster.informers))
    await cluster.node("a100-0")
    await cluster.apply(DEPLOYMENT, "web", cluster.workload(4))
    await cluster.clock.advance(0.05)
    await cluster.stop()
    await cluster.api.patch(DEPLOYMENT, "web", {"spec": {"replicas": 2}}, namespace="default")
    cluster.start(run_controllers(cluster.server.of_controller, cluster.clock, cluster.informers))
    await cluster.go_on()
    assert len(await cluster.pods()) == 2
    assert len(await cluster.all(NODE)) == 1
