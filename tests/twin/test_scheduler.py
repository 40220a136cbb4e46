"""The scheduler loop over a small API in memory, on a clock that stands still until it is moved."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from tonnage.adapters.ports import Change, ChangeType, KubernetesApi, Listing, PatchType
from tonnage.model.errors import ApiError
from tonnage.twin.clock import VirtualClock
from tonnage.twin.scheduler import Scheduler
from tonnage.wire import kinds
from tonnage.wire.kinds import Kind

Body = dict[str, Any]


@dataclass
class MemoryApi:
    """Objects by kind and key, and their history per kind. `echo` off keeps changes from watchers."""

    objects: dict[str, dict[tuple[str, str], Body]] = field(default_factory=lambda: defaultdict(dict))
    history: dict[str, list[tuple[ChangeType, Body]]] = field(default_factory=lambda: defaultdict(list))
    grown: asyncio.Event = field(default_factory=asyncio.Event)
    echo: bool = True
    mute_at_binding: bool = False
    refuse_binding: list[ApiError] = field(default_factory=list)
    bindings: list[tuple[str, str]] = field(default_factory=list)

    def put(self, kind: Kind[Any], body: Body) -> None:
        key = body["metadata"].get("namespace", ""), body["metadata"]["name"]
        known = key in self.objects[kind.plural]
        self.objects[kind.plural][key] = body
        self._tell(kind.plural, ChangeType.MODIFIED if known else ChangeType.ADDED, body)

    def remove(self, kind: Kind[Any], name: str, namespace: str = "default") -> None:
        self._tell(kind.plural, ChangeType.DELETED, self.objects[kind.plural].pop((namespace, name)))

    def release(self) -> None:
        self.echo = True
        self.grown.set()

    def pod(self, name: str) -> Body:
        return self.objects["pods"]["default", name]

    def events(self, reason: str) -> list[tuple[str, str, str, int]]:
        return [
            (e["type"], e["involvedObject"]["name"], e["message"], e["count"])
            for e in self.objects["events"].values()
            if e["reason"] == reason
        ]

    def _tell(self, plural: str, change: ChangeType, body: Body) -> None:
        version = str(len(self.history[plural]) + 1)
        body["metadata"]["resourceVersion"] = version
        copy = msgspec.json.decode(msgspec.json.encode(body))
        self.history[plural].append((change, copy))
        self.grown.set()

    async def list(self, kind: Kind[Any], **_: Any) -> Listing[Any]:
        items = [msgspec.convert(body, kind.type) for body in self.objects[kind.plural].values()]
        return Listing(items, str(len(self.history[kind.plural])))

    async def watch(self, kind: Kind[Any], *, resource_version: str, **_: Any) -> AsyncIterator[Change[Any]]:
        seen = int(resource_version)
        while True:
            if not self.echo or seen == len(self.history[kind.plural]):
                self.grown = asyncio.Event() if self.grown.is_set() else self.grown
                await self.grown.wait()
                continue
            change, body = self.history[kind.plural][seen]
            seen += 1
            yield Change(change, msgspec.convert(body, kind.type))

    async def create(self, kind: Kind[Any], body: Body, *, namespace: str | None = None) -> Any:
        self.put(kind, {**body, "metadata": {**body["metadata"], "namespace": namespace}})
        return msgspec.convert(body, kind.type)

    async def patch(
        self,
        kind: Kind[Any],
        name: str,
        patch: Body,
        *,
        namespace: str | None = None,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
    ) -> Any:
        body = self.objects[kind.plural][namespace or "", name]
        if kind is kinds.POD:
            assert (patch_type, subresource) == (PatchType.STRATEGIC, "status")
            status = body.setdefault("status", {})
            merged = {c["type"]: c for c in status.get("conditions", [])}
            merged |= {c["type"]: c for c in patch["status"].get("conditions", [])}
            status |= {**patch["status"], "conditions": list(merged.values())}
            status.update({k: v for k, v in status.items() if v is not None})
            for gone in [k for k, v in status.items() if v is None]:
                del status[gone]
        else:
            body.update(patch)
        self.put(kind, body)
        return msgspec.convert(body, kind.type)

    async def delete(self, kind: Kind[Any], name: str, *, namespace: str = "", **_: Any) -> None:
        body = self.objects[kind.plural][namespace, name]
        body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
        self.put(kind, body)

    async def create_subresource(
        self, kind: Kind[Any], name: str, subresource: str, body: Body, *, namespace: str | None = None
    ) -> None:
        assert (kind, subresource) == (kinds.POD, "binding")
        if self.refuse_binding:
            raise self.refuse_binding.pop()
        self.bindings.append((name, body["target"]["name"]))
        self.echo = self.echo and not self.mute_at_binding
        pod = self.objects["pods"][namespace or "", name]
        assert body["metadata"]["uid"] == pod["metadata"]["uid"]
        pod["spec"]["nodeName"] = body["target"]["name"]
        pod.setdefault("status", {}).pop("nominatedNodeName", None)
        self.put(kind, pod)


def node(name: str, gpus: int = 1, **spec: Any) -> Body:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    labels = {"kubernetes.io/hostname": name}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": spec,
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(name: str, gpus: int = 1, **spec: Any) -> Body:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "i", "resources": resources}],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


@asynccontextmanager
async def running(api: MemoryApi, clock: VirtualClock) -> AsyncIterator[None]:
    task = asyncio.create_task(Scheduler(cast(KubernetesApi, api), clock).run())
    await clock.settle()
    try:
        yield
    finally:
        assert not task.done(), task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


FULL = (
    "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, "
    "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
)


async def test_a_pod_is_bound_and_an_event_says_so() -> None:
    api, clock = MemoryApi(), VirtualClock()
    api.put(kinds.NODE, node("a"))
    api.put(kinds.POD, pod("p"))
    async with running(api, clock):
        assert api.bindings == [("p", "a")]
        assert api.events("Scheduled") == [("Normal", "p", "Successfully assigned default/p to a", 1)]


async def test_a_pod_of_another_scheduler_is_left_alone() -> None:
    api, clock = MemoryApi(), VirtualClock()
    api.put(kinds.NODE, node("a"))
    api.put(kinds.POD, pod("p", schedulerName="kai-scheduler"))
    async with running(api, clock):
        await clock.advance(600)
        assert api.bindings == []
        assert api.pod("p")["status"] == {"phase": "Pending"}


async def test_a_refused_pod_gets_condition_and_event_in_upstreams_words() -> None:
    api, clock = MemoryApi(), VirtualClock()
    api.put(kinds.NODE, node("a"))
    api.put(kinds.POD, pod("first", nodeName="a"))
    api.put(kinds.POD, pod("p"))
    async with running(api, clock):
        [condition] = api.pod("p")["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
        assert (condition["reason"], condition["message"]) == ("Unschedulable", FULL)
        assert api.events("FailedScheduling") == [("Warning", "p", FULL, 1)]


async def test_scheduling_gates_hold_a_pod_until_they_are_gone() -> None:
    api, clock = MemoryApi(), VirtualClock()
    api.put(kinds.NODE, node("a"))
    api.put(kinds.POD, pod("p", schedulingGates=[{"name": "quota"}]))
    async with running(api, clock):
        assert api.pod("p")["status"]["conditions"][0]["reason"] == "SchedulingGated"
        assert api.events("FailedScheduling") == []
        ungated = api.pod("p")
        ungated["spec"]["schedulingGates"] = []
        api.put(kinds.POD, ungated)
        await clock.advance(1)
        assert api.bindings == [("p", "a")]


@pytest.mark.parametrize("end", ["deleted", "finished"])
async def test_a_waiting_pod_is_tried_again_when_another_ends(end: str) -> None:
    api, clock = MemoryApi(), VirtualClock()
    api.put(kinds.NODE, node("a"))
    api.put(kinds.POD, pod("first", nodeName="a"))
    api.put(kinds.POD, pod("p"))
    async with running(api, clock):
        await clock.advance(5)
        assert api.bindings == []
        if end == "deleted":
            api.remove(kinds.POD, "first")
        else:
            done = api.pod("first")
            done["status"]["phase"] = "Succeeded"
            api.put(kinds.POD, done)
        await clock.settle()
        assert api.bindings == [("p", "a")]


async def test_nothing_is_tried_again_while_nothing_changes() -> None:
    api, clock = MemoryApi(), VirtualClock()
    api.put(kinds.NODE, node("a", gpus=0))
    api.put(kinds.POD, pod("p"))
    async with running(api, clock):
        await clock.advance(290)
        assert api.events("FailedScheduling")[0][3] == 1
        heartbeat = node("a", gpus=0)
        heartbeat["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
        api.put(kinds.NODE, heartbeat)
        await clock.settle()
        api.put(kinds.NODE, heartbeat)
        await clock.settle()
        assert api.events("FailedScheduling")[0][3] == 2


async def test_back_off_doubles_up_to_ten_seconds_and_events_are_counted() -> None:
    api, clock = MemoryApi(), VirtualClock()
    api.put(kinds.NODE, node("a", gpus=0))
    api.put(kinds.POD, pod("p"))
    tried: list[float] = []
    async with running(api, clock):
        for step in range(1, 400):
            api.put(kinds.NODE, node("a", gpus=0, podCIDR=f"{step}", taints=[{"key": f"k{step}"}]))
            before = api.events("FailedScheduling")[0][3]
            await clock.advance(0.1)
            if api.events("FailedScheduling")[0][3] != before:
                tried.append(round(clock.monotonic(), 1))
    pauses = [round(b - a, 1) for a, b in zip([0.0, *tried], tried, strict=False)]
    assert pauses == pytest.approx([1, 2, 4, 8, 10, 10], abs=0.11)
    assert len(api.events("FailedScheduling")) == 1


async def test_two_pods_never_get_the_same_gpu_before_the_watch_shows_the_first() -> None:
    api, clock = MemoryApi(), VirtualClock()
    api.put(kinds.NODE, node("a"))
    async with running(api, clock):
        api.put(kinds.POD, pod("one"))
        api.put(kinds.POD, pod("two"))
        api.mute_at_binding = True
        await clock.settle()
        assert api.bindings == [("one", "a")]
        api.mute_at_binding = False
        api.release()
        await clock.advance(30)
        assert api.bindings == [("one", "a")]


async def test_the_more_important_pod_goes_first() -> None:
    api, clock = MemoryApi(), VirtualClock()
    api.put(kinds.NODE, node("a", gpus=2))
    for name, priority in (("low", 0), ("high", 100), ("middle", 50)):
        api.put(kinds.POD, pod(name, priority=priority))
    async with running(api, clock):
        assert [name for name, _ in api.bindings] == ["high", "middle"]


async def test_a_binding_that_fails_frees_what_was_assumed_and_is_tried_again() -> None:
    api, clock = MemoryApi(), VirtualClock()
    api.refuse_binding.append(ApiError(500, "InternalError", "disk full"))
    api.put(kinds.NODE, node("a"))
    api.put(kinds.POD, pod("p"))
    async with running(api, clock):
        assert api.bindings == []
        await clock.advance(1)
        assert api.bindings == [("p", "a")]


async def test_sch_10_preemption_dooms_the_victim_then_takes_its_place() -> None:
    """SCH-10: a high-priority pod meets a full pool."""
    api, clock = MemoryApi(), VirtualClock()
    api.put(kinds.NODE, node("a"))
    api.put(kinds.POD, pod("victim", nodeName="a", priority=0))
    async with running(api, clock):
        api.put(kinds.POD, pod("train", priority=1000))
        await clock.settle()
        status = api.pod("train")["status"]
        assert status["nominatedNodeName"] == "a"
        assert status["conditions"][0]["message"] == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
        target = next(c for c in api.pod("victim")["status"]["conditions"] if c["type"] == "DisruptionTarget")
        assert target["reason"] == "PreemptionByScheduler"
        assert api.pod("victim")["metadata"]["deletionTimestamp"]
        assert api.events("Preempted") == [("Normal", "victim", "Preempted by pod uid-train on node a", 1)]
        await clock.advance(20)
        assert api.bindings == []
        api.remove(kinds.POD, "victim")
        await clock.settle()
        assert api.bindings == [("train", "a")]


async def test_a_nominated_node_is_kept_from_pods_that_are_no_more_important() -> None:
    api, clock = MemoryApi(), VirtualClock()
    api.put(kinds.NODE, node("a"))
    api.put(kinds.POD, pod("victim", nodeName="a", priority=0))
    async with running(api, clock):
        api.put(kinds.POD, pod("train", priority=1000))
        await clock.settle()
        api.remove(kinds.POD, "victim")
        api.put(kinds.POD, pod("late", priority=0))
        await clock.settle()
        await clock.advance(30)
        assert api.bindings == [("train", "a")]


async def test_an_affinity_is_tried_again_when_its_pod_arrives() -> None:
    api, clock = MemoryApi(), VirtualClock()
    api.put(kinds.NODE, node("a", gpus=8))
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    api.put(kinds.POD, pod("web", affinity=affinity))
    async with running(api, clock):
        await clock.advance(5)
        assert api.bindings == []
        database = pod("db")
        database["metadata"]["labels"] = {"app": "db"}
        api.put(kinds.POD, database)
        await clock.advance(1)
        assert api.bindings == [("db", "a"), ("web", "a")]


async def test_what_the_engine_does_not_decide_is_refused_by_name() -> None:
    api, clock = MemoryApi(), VirtualClock()
    api.put(kinds.NODE, node("a"))
    api.put(kinds.POD, pod("p", resourceClaims=[{"name": "gpu"}]))
    async with running(api, clock):
        [condition] = api.pod("p")["status"]["conditions"]
        assert condition["reason"] == "SchedulerError"
        assert "resource claims (gpu)" in condition["message"]
        assert api.bindings == []
