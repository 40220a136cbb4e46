"""PodDisruptionBudgets on the twin: what they allow, and what evictions take from them."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.twin.controllers.budgets.disruption import DisruptionController
from tonnage.twin.controllers.replicas.replica_set import ReplicaSetController
from tonnage.wire.kinds import DISRUPTION_BUDGET, POD, REPLICA_SET

Cluster = Any


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(DisruptionController(cluster.api, cluster.clock, cluster.informers).run())
    cluster.start(ReplicaSetController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


async def budget(cluster: Cluster, **spec: Any) -> None:
    whole = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    await cluster.apply(DISRUPTION_BUDGET, "web", {"spec": whole})


async def status(cluster: Cluster) -> dict[str, Any]:
    await cluster.clock.advance(1)
    found: dict[str, Any] = (await cluster.api.get(DISRUPTION_BUDGET, "web", "default")).status
    return found


async def counts(cluster: Cluster) -> tuple[int, ...]:
    """Expected, needed, healthy, spare."""
    found = await status(cluster)
    keys = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    return tuple(found[key] for key in keys)


async def evict(cluster: Cluster, name: str, **options: Any) -> None:
    body: JsonObject = {"metadata": {"name": name}, "deleteOptions": options}
    await cluster.api.create_subresource(POD, name, "eviction", body, namespace="default")


@pytest.mark.parametrize(
    ("spec", "seen"),
    [
        pytest.param({"minAvailable": 3}, (5, 3, 5, 2), id="a number that must stay"),
        pytest.param({"minAvailable": "50%"}, (5, 3, 5, 2), id="a share that must stay, rounded up"),
        pytest.param({"maxUnavailable": 1}, (5, 4, 5, 1), id="a number that may go"),
        pytest.param({"maxUnavailable": "30%"}, (5, 3, 5, 2), id="a share that may go, rounded up"),
        pytest.param({"minAvailable": 9}, (5, 9, 5, 0), id="more than there are"),
        pytest.param({}, (0, 0, 5, 0), id="nothing said"),
    ],
)
async def test_a_budget_counts_its_pods(running: Cluster, spec: Any, seen: Any) -> None:
    await running.apply(REPLICA_SET, "web", running.workload(5))
    await budget(running, **spec)
    await running.go_on()
    assert await counts(running) == seen
    [condition] = (await status(running))["conditions"]
    word = ("True", "SufficientPods") if seen[-1] else ("False", "InsufficientPods")
    assert (condition["status"], condition["reason"]) == word


async def test_an_eviction_is_taken_from_the_budget_until_the_pod_is_replaced(running: Cluster) -> None:
    await running.apply(REPLICA_SET, "web", running.workload(2))
    await budget(running, maxUnavailable=1)
    await running.go_on()
    first, second = await running.pods()
    await evict(running, first.metadata.name)
    with pytest.raises(ApiError) as refused:
        await evict(running, second.metadata.name)
    assert refused.value.code == 429
    await running.go_on()
    assert await counts(running) == (2, 1, 2, 1)
    assert "disruptedPods" not in await status(running)


async def test_an_evicted_pod_that_stays_counts_again_after_two_minutes(running: Cluster) -> None:
    """Its deletion was noted and never came to be."""
    await running.apply(REPLICA_SET, "web", running.workload(2))
    await budget(running, minAvailable=1)
    await running.go_on()
    [pod, _] = await running.pods()
    noted: JsonObject = {
        "status": {"disruptedPods": {pod.metadata.name: "2026-01-01T00:00:05Z"}, "disruptionsAllowed": 0}
    }
    await running.api.patch(DISRUPTION_BUDGET, "web", noted, namespace="default", subresource="status")
    assert await counts(running) == (2, 1, 1, 0)
    await running.clock.advance(125)
    assert await counts(running) == (2, 1, 2, 1)
    assert await running.events("NotDeleted") == [
        "Pod was expected by PDB default/default to be deleted but it wasn't"
    ]


async def test_the_mark_of_a_disruption_that_does_not_happen_is_taken_away(running: Cluster) -> None:
    pod = await running.apply(POD, "p", running.template())
    mark: JsonObject = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await running.api.patch(
        POD, "p", {"status": {"conditions": [mark]}}, namespace="default", subresource="status"
    )
    await running.clock.advance(119)
    [condition] = (await running.api.get(POD, "p", "default")).status.conditions
    assert condition.status == "True"
    await running.clock.advance(2)
    [condition] = (await running.api.get(POD, "p", "default")).status.conditions
    assert (condition.status, condition.reason) == ("False", "")
    assert (await running.api.get(POD, "p", "default")).metadata.uid == pod.metadata.uid


@pytest.mark.parametrize(
    ("owner", "why"),
    [
        pytest.param(
            ("batch/v1", "Job"), "jobs.batch does not implement the scale subresource", id="of a job"
        ),
        pytest.param(
            ("x.io/v1", "Robot"),
            'no matches for kind "Robot" in version "x.io/v1"',
            id="of a kind that nobody serves",
        ),
        pytest.param(
            ("apps/v1", "StatefulSet"), 'found no controllers for pod "p"', id="of one that is gone"
        ),
    ],
)
async def test_pods_that_cannot_be_counted_may_not_be_evicted(
    running: Cluster, owner: tuple[str, str], why: str
) -> None:
    version, kind = owner
    reference = {"apiVersion": version, "kind": kind, "name": "o", "uid": "u", "controller": True}
    body = running.template()
    body["metadata"]["ownerReferences"] = [reference]
    await running.apply(POD, "p", body)
    await budget(running, maxUnavailable=1)
    [condition] = (await status(running))["conditions"]
    assert (condition["reason"], condition["message"]) == ("SyncFailed", why)
    await running.set_pod(await running.api.get(POD, "p", "default"))
    # Its status was never counted, so the server does not trust it.
    with pytest.raises(ApiError) as refused:
        await evict(running, "p")
    assert refused.value.code == 429


@pytest.mark.parametrize(("policy", "goes"), [("AlwaysAllow", True), ("IfHealthyBudget", False)])
async def test_a_pod_that_is_not_ready_goes_by_the_policy(running: Cluster, policy: str, goes: bool) -> None:
    await running.apply(POD, "p", running.template())
    await running.set_pod(await running.api.get(POD, "p", "default"), ready=False)
    await budget(running, minAvailable=1, unhealthyPodEvictionPolicy=policy)
    await running.clock.advance(1)
    if goes:
        await evict(running, "p")
        return
    with pytest.raises(ApiError) as refused:
        await evict(running, "p")
    assert refused.value.code == 429


async def test_pods_of_nobody_are_told_of_where_shares_are_counted(running: Cluster) -> None:
    await running.apply(POD, "p", running.template())
    await budget(running, maxUnavailable=1)
    assert await counts(running) == (0, 0, 0, 0)
    [told] = await running.events("UnmanagedPods")
    labels = "MatchLabels:map[string]string{app: web,}"
    assert f"(selector: &LabelSelector{{{labels},MatchExpressions:[]LabelSelectorRequirement{{}},}})" in told


async def test_a_pod_of_several_budgets_is_told_of(running: Cluster) -> None:
    await budget(running, minAvailable=1)
    await running.apply(POD, "p", running.template())
    await running.clock.advance(1)
    assert await running.events("MultiplePodDisruptionBudgets") == []
    second = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
    await running.apply(DISRUPTION_BUDGET, "second", {"spec": second})
    await running.clock.advance(1)
    assert await running.events("MultiplePodDisruptionBudgets") == [], "nothing has become of the pod"
    await running.make_ready()
    await running.clock.advance(1)
    [told] = await running.events("MultiplePodDisruptionBudgets")
    assert told.startswith('Pod "default"/"p" matches multiple PodDisruptionBudgets.  Chose "')
