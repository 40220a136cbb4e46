"""The scheduler loop on the twin's API server, on a clock that stands still until it is moved."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.scheduled_pods import Api, running
from tonnage.decide.kubernetes.scheduler.scheduling import SchedulingDecision, schedule_on
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Pod
from tonnage.ports.kubernetes import PatchType
from tonnage.twin.clock import VirtualClock
from tonnage.wire import kinds


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods that were tried, in order."""
    tried: list[str] = []

    def noted(pod: Pod, *rest: Any, **options: Any) -> SchedulingDecision:
        tried.append(pod.name)
        return schedule_on(pod, *rest, **options)

    monkeypatch.setattr("tonnage.twin.scheduler.loop.schedule_on", noted)
    return tried


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(settle_passes=200)


@pytest.fixture
async def api(clock: VirtualClock) -> Api:
    return Api(clock)


FULL = (
    "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, "
    "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
)


async def test_a_pod_is_bound_and_an_event_says_so(api: Api, clock: VirtualClock) -> None:
    await api.node("a")
    await api.pod("p")
    async with running(api, clock):
        assert api.bindings == [("p", "a")]
        assert await api.events("Scheduled") == [("Normal", "p", "Successfully assigned default/p to a", 1)]
        bound = await api.read("p")
        assert bound.spec.node_name == "a"
        assert [(c.type, c.status) for c in bound.status.conditions] == [("PodScheduled", "True")]


async def test_a_pod_of_another_scheduler_is_left_alone(api: Api, clock: VirtualClock) -> None:
    await api.node("a")
    await api.pod("p", schedulerName="kai-scheduler")
    async with running(api, clock):
        await clock.advance(600)
        assert api.bindings == []
        assert (await api.read("p")).status.conditions == []


async def test_a_refused_pod_gets_condition_and_event_in_upstreams_words(
    api: Api, clock: VirtualClock
) -> None:
    await api.node("a")
    await api.pod("first", nodeName="a")
    await api.pod("p")
    async with running(api, clock):
        [condition] = (await api.read("p")).status.conditions
        assert (condition.type, condition.status) == ("PodScheduled", "False")
        assert (condition.reason, condition.message) == ("Unschedulable", FULL)
        assert await api.events("FailedScheduling") == [("Warning", "p", FULL, 1)]


async def test_scheduling_gates_hold_a_pod_until_they_are_gone(api: Api, clock: VirtualClock) -> None:
    await api.node("a")
    await api.pod("p", schedulingGates=[{"name": "quota"}])
    async with running(api, clock):
        assert (await api.read("p")).status.conditions[0].reason == "SchedulingGated"
        assert await api.events("FailedScheduling") == []
        await api.patch(kinds.POD, "p", {"spec": {"schedulingGates": None}}, namespace="default")
        await clock.advance(1)
        assert api.bindings == [("p", "a")]


@pytest.mark.parametrize("end", ["deleted", "finished"])
async def test_a_waiting_pod_is_tried_again_when_another_ends(
    api: Api, clock: VirtualClock, end: str
) -> None:
    await api.node("a")
    await api.pod("first", nodeName="a")
    await api.pod("p")
    async with running(api, clock):
        await clock.advance(5)
        assert api.bindings == []
        if end == "deleted":
            await api.gone("first")
        else:
            patch: JsonObject = {"status": {"phase": "Succeeded"}}
            await api.patch(kinds.POD, "first", patch, namespace="default", subresource="status")
        await clock.settle()
        assert api.bindings == [("p", "a")]


async def test_nothing_is_tried_again_while_nothing_changes(
    api: Api, clock: VirtualClock, attempts: list[str]
) -> None:
    await api.node("a", gpus=0)
    await api.pod("p")
    async with running(api, clock):
        await clock.advance(100)
        for second in range(20):
            heartbeat = f"2026-01-01T00:00:{second:02}Z"
            ready: JsonObject = {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}
            patch: JsonObject = {"status": {"conditions": [ready]}}
            await api.patch(kinds.NODE, "a", patch, patch_type=PatchType.STRATEGIC, subresource="status")
            await clock.advance(10)
        assert len(attempts) == 2, "once at first, once when the node became ready"


async def pauses(api: Api, clock: VirtualClock, version: str, attempts: list[str]) -> list[float]:
    """Seconds between the attempts at a pod that does not fit; its node gets larger ten times a second."""
    await api.node("a")
    await api.pod("first", nodeName="a")
    await api.pod("p")
    tried: list[float] = []
    async with running(api, clock, version):
        for step in range(1, 400):
            more: JsonObject = {"status": {"allocatable": {"pods": f"{110 + step}"}}}
            await api.patch(kinds.NODE, "a", more, patch_type=PatchType.MERGE, subresource="status")
            before = attempts.count("p")
            await clock.advance(0.1)
            if attempts.count("p") != before:
                tried.append(round(clock.monotonic(), 1))
    return [round(b - a, 1) for a, b in zip([0.0, *tried], tried, strict=False)]


async def test_back_off_doubles_up_to_ten_seconds(api: Api, clock: VirtualClock, attempts: list[str]) -> None:
    assert await pauses(api, clock, "1.32", attempts) == pytest.approx([1, 2, 4, 8, 10, 10], abs=0.11)


async def test_back_off_is_cut_short_when_no_other_pod_waits(
    api: Api, clock: VirtualClock, attempts: list[str]
) -> None:
    assert set(await pauses(api, clock, "1.33", attempts)) == {0.1}


async def test_a_change_that_cannot_help_wakes_no_pod(
    api: Api, clock: VirtualClock, attempts: list[str]
) -> None:
    await api.node("a", gpus=0)
    await api.pod("p")
    async with running(api, clock):
        await api.patch(kinds.NODE, "a", {"metadata": {"labels": {"tier": "gold"}}})
        await clock.advance(20)
        assert attempts == ["p"]
        await api.node("large", gpus=1)
        await clock.settle()
        assert api.bindings == [("p", "large")]


async def test_two_pods_never_get_the_same_gpu_before_the_watch_shows_the_first(
    api: Api, clock: VirtualClock
) -> None:
    await api.node("a")
    async with running(api, clock):
        api.mute_at_binding = True
        await api.pod("one")
        await api.pod("two")
        await clock.settle()
        assert api.bindings == [("one", "a")]
        api.mute_at_binding = False
        api.heard.set()
        await clock.advance(30)
        assert api.bindings == [("one", "a")]


async def test_a_binding_that_takes_long_holds_up_no_other_pod_and_its_device_is_taken(
    api: Api, clock: VirtualClock
) -> None:
    await api.node("a", gpus=2)
    for name in ("first", "second", "third"):
        await api.pod(name)
    api.slow_bindings["first"] = asyncio.Event()
    async with running(api, clock):
        assert api.bindings == [("second", "a")]
        [refused] = await api.events("FailedScheduling")
        assert refused[1] == "third"
        api.slow_bindings["first"].set()
        await clock.settle()
        assert api.bindings == [("second", "a"), ("first", "a")]


async def test_the_more_important_pod_goes_first(api: Api, clock: VirtualClock) -> None:
    await api.node("a", gpus=2)
    await api.classes(high=100, middle=50, low=0)
    for name in ("low", "high", "middle"):
        await api.pod(name, priorityClassName=name)
    async with running(api, clock):
        assert [name for name, _ in api.bindings] == ["high", "middle"]


async def test_a_binding_that_fails_frees_what_was_assumed_and_is_tried_again(
    api: Api, clock: VirtualClock
) -> None:
    api.refuse_binding.append(ApiError(500, "InternalError", "disk full"))
    await api.node("a")
    await api.pod("p")
    async with running(api, clock):
        assert api.bindings == []
        why = 'running Bind plugin "DefaultBinder": disk full'
        assert await api.events("FailedScheduling") == [("Warning", "p", why, 1)]
        [condition] = (await api.read("p")).status.conditions
        assert (condition.reason, condition.message) == ("SchedulerError", why)
        assert condition.observed_generation == 1
        await clock.advance(0.5)
        assert api.bindings == [], "after an error nothing cuts the back-off short"
        await clock.advance(1.5)
        assert api.bindings == [("p", "a")]


async def test_sch_10_preemption_dooms_the_victim_then_takes_its_place(api: Api, clock: VirtualClock) -> None:
    """SCH-10: a high-priority pod meets a full pool."""
    await api.node("a")
    await api.classes(high=1000)
    await api.pod("victim", nodeName="a")
    async with running(api, clock):
        await api.pod("train", priorityClassName="high")
        await clock.settle()
        train, victim = await api.read("train"), await api.read("victim")
        assert train.status.nominated_node_name == "a"
        assert train.status.conditions[0].message == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
        target = next(c for c in victim.status.conditions if c.type == "DisruptionTarget")
        assert target.reason == "PreemptionByScheduler"
        assert victim.metadata.deletion_timestamp is not None
        assert await api.events("Preempted") == [
            ("Normal", "victim", f"Preempted by pod {train.metadata.uid} on node a", 1)
        ]
        await clock.advance(20)
        assert api.bindings == []
        await api.gone("victim")
        await clock.settle()
        assert api.bindings == [("train", "a")]
        assert (await api.read("train")).status.nominated_node_name == ""


async def test_a_nominated_node_is_kept_from_pods_that_are_no_more_important(
    api: Api, clock: VirtualClock
) -> None:
    await api.node("a")
    await api.classes(high=1000)
    await api.pod("victim", nodeName="a")
    async with running(api, clock):
        await api.pod("train", priorityClassName="high")
        await clock.settle()
        await api.gone("victim")
        await api.pod("late")
        await clock.settle()
        await clock.advance(30)
        assert api.bindings == [("train", "a")]


async def test_a_pod_from_which_its_nominated_node_is_taken_clears_another(
    api: Api, clock: VirtualClock
) -> None:
    await api.classes(high=1000, medium=500)
    for name in ("a", "b"):
        await api.node(name)
        await api.pod(f"victim-{name}", nodeName=name)
    async with running(api, clock):
        await api.pod("first", priorityClassName="medium")
        await clock.settle()
        taken = (await api.read("first")).status.nominated_node_name
        await api.pod("train", priorityClassName="high", nodeSelector={"kubernetes.io/hostname": taken})
        await clock.settle()
        await clock.advance(20)
        assert (await api.read("train")).status.nominated_node_name == taken
        assert {taken, (await api.read("first")).status.nominated_node_name} == {"a", "b"}
        assert all([(await api.read(f"victim-{name}")).metadata.deletion_timestamp for name in ("a", "b")])


async def test_two_preemptors_never_count_on_the_same_victim_before_the_watch_shows_the_first(
    api: Api, clock: VirtualClock
) -> None:
    await api.node("a", gpus=2)
    await api.classes(high=1000)
    for name in ("one", "two"):
        await api.pod(name, nodeName="a")
    async with running(api, clock):
        api.mute_at_eviction = True
        for name in ("train", "tune"):
            await api.pod(name, priorityClassName="high")
        await clock.settle()
        assert [name for name in ("one", "two") if (await api.read(name)).metadata.deletion_timestamp] == [
            "one",
            "two",
        ]
        api.heard.set()


async def test_an_affinity_is_tried_again_when_its_pod_arrives(api: Api, clock: VirtualClock) -> None:
    await api.node("a", gpus=8)
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await api.pod("web", affinity=affinity)
    async with running(api, clock):
        await clock.advance(5)
        assert api.bindings == []
        await api.pod("db", labels={"app": "db"})
        await clock.advance(1)
        assert api.bindings == [("db", "a"), ("web", "a")]


async def test_what_the_engine_does_not_decide_is_refused_by_name(
    api: Api, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ = SchedulingDecision(unmodelled=("gangs",))
    monkeypatch.setattr("tonnage.twin.scheduler.loop.schedule_on", lambda *_, **__: open_)
    await api.node("a")
    await api.pod("p")
    async with running(api, clock):
        [condition] = (await api.read("p")).status.conditions
        assert condition.reason == "SchedulerError"
        assert "gangs" in condition.message
        assert api.bindings == []


async def test_a_pod_waits_for_a_disk_that_another_has(api: Api, clock: VirtualClock) -> None:
    await api.node("a", gpus=8)
    disk = [{"name": "data", "awsElasticBlockStore": {"volumeID": "v"}}]
    for name in ("p", "q"):
        await api.pod(name, volumes=disk)
    async with running(api, clock):
        assert api.bindings == [("p", "a")]
        assert "1 node(s) had no available disk." in (await api.events("FailedScheduling"))[0][2]
        await api.gone("p")
        await clock.advance(2)
        assert api.bindings == [("p", "a"), ("q", "a")]


async def test_a_cluster_without_nodes_is_looked_at_again_after_the_back_off(
    api: Api, clock: VirtualClock, attempts: list[str]
) -> None:
    await api.pod("p")
    async with running(api, clock):
        assert (await api.events("FailedScheduling"))[0][2] == "no nodes available to schedule pods"
        await api.node("a")
        await clock.advance(0.5)
        assert (len(attempts), api.bindings) == (1, [])
        await clock.advance(1.5)
        assert api.bindings == [("p", "a")]


async def test_a_pod_in_the_middle_of_being_deleted_is_not_bound(api: Api, clock: VirtualClock) -> None:
    await api.node("a", unschedulable=True)
    await api.pod("p")
    async with running(api, clock):
        await api.patch(
            kinds.POD, "p", {"metadata": {"finalizers": ["example.com/hold"]}}, namespace="default"
        )
        await api.gone("p")
        await api.patch(kinds.NODE, "a", {"spec": {"unschedulable": None}})
        await clock.advance(30)
        assert api.bindings == []
        assert (await api.events("FailedScheduling"))[-1][2] == "skip schedule deleting pod: default/p"
