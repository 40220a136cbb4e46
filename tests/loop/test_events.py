from __future__ import annotations

import re
from random import Random
from typing import Any

import msgspec
import pytest

from support.api_stores import new_store
from tonnage.loop.effects import ActionPorts
from tonnage.loop.events import EventRecorder, recorder_over, reference_to
from tonnage.loop.performer import Performer
from tonnage.model.errors import ClusterError, Problem
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import EVENT, NODE, POD
from tonnage.wire.objects import Pod
from tonnage.wire.reports import Event


class EventBench:
    """An API, a clock that stands still, and a pod to tell about."""

    def __init__(self, clock: VirtualClock, api: KubernetesApi, pod: Pod) -> None:
        self.clock = clock
        self.api = api
        self.pod = pod
        self.recorder = recorder_over(api, clock, "kubelet", "a100-0")

    async def events(self) -> list[Event]:
        return (await self.api.list(EVENT)).items


@pytest.fixture
async def bench() -> EventBench:
    clock = VirtualClock()
    api: KubernetesApi = ApiServer(clock, random=Random(1), store=new_store()).local()
    body: dict[str, Any] = {
        "metadata": {"name": "train"},
        "spec": {"containers": [{"name": "main", "image": "cuda"}]},
    }
    return EventBench(clock, api, await api.create(POD, body, namespace="default"))


async def test_an_event_says_who_says_what_about_whom(bench: EventBench) -> None:
    await bench.recorder.emit(bench.pod, "Warning", "FailedScheduling", "0/1 nodes are available")
    [event] = await bench.events()
    involved = event.involved_object
    assert (involved.kind, involved.namespace, involved.name) == ("Pod", "default", "train")
    assert involved.uid == bench.pod.metadata.uid
    assert (event.type, event.reason, event.message) == (
        "Warning",
        "FailedScheduling",
        "0/1 nodes are available",
    )
    assert (event.count, event.source) == (1, {"component": "kubelet", "host": "a100-0"})
    assert event.first_timestamp == event.last_timestamp == "2026-01-01T00:00:00Z"
    assert event.metadata.namespace == "default"
    name, _, suffix = event.metadata.name.rpartition(".")
    assert name == "train"
    assert int(suffix, 16) > 0


async def test_what_has_an_odd_name_is_told_under_another(bench: EventBench) -> None:
    odd = reference_to(bench.pod)
    await bench.recorder.emit(msgspec.structs.replace(odd, name="A_b"), "Normal", "Seen", "odd")
    [event] = await bench.events()
    assert event.involved_object.name == "A_b"
    assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", event.metadata.name)


async def test_the_same_again_is_counted_and_anything_else_is_another_event(bench: EventBench) -> None:
    for _ in range(3):
        await bench.recorder.emit(bench.pod, "Normal", "Pulled", "image present")
        await bench.clock.advance(60)
    await bench.recorder.emit(bench.pod, "Normal", "Pulled", "another image present")
    await bench.recorder.emit(
        reference_to(bench.pod, "spec.containers{main}"), "Normal", "Pulled", "image present"
    )
    counts = sorted((event.count, event.last_timestamp) for event in await bench.events())
    assert counts == [
        (1, "2026-01-01T00:03:00Z"),
        (1, "2026-01-01T00:03:00Z"),
        (3, "2026-01-01T00:02:00Z"),
    ]


async def test_an_event_that_was_deleted_meanwhile_is_written_anew(bench: EventBench) -> None:
    await bench.recorder.emit(bench.pod, "Normal", "Pulled", "image present")
    [event] = await bench.events()
    await bench.api.delete(EVENT, event.metadata.name, namespace="default")
    await bench.recorder.emit(bench.pod, "Normal", "Pulled", "image present")
    [again] = await bench.events()
    assert again.count == 2
    assert again.metadata.uid != event.metadata.uid


async def test_events_about_cluster_scoped_objects_lie_in_the_default_namespace(bench: EventBench) -> None:
    node = await bench.api.create(NODE, {"metadata": {"name": "a100-0"}})
    await bench.recorder.emit(node, "Normal", "NodeReady", "ready")
    [event] = await bench.events()
    assert (event.metadata.namespace, event.involved_object.namespace) == ("default", "")


async def test_recorders_at_one_moment_do_not_meet_in_a_name(bench: EventBench) -> None:
    others = [
        recorder_over(bench.api, bench.clock, "scheduler"),
        recorder_over(bench.api, bench.clock, "kubelet", "a100-0"),
    ]
    for recorder in (bench.recorder, *others):
        await recorder.emit(bench.pod, "Normal", "Pulled", "image present")
    assert len(await bench.events()) == 3


async def test_many_that_differ_in_their_message_alone_are_combined(bench: EventBench) -> None:
    for number in range(12):
        await bench.recorder.emit(bench.pod, "Normal", "Created", f"pod {number}")
    await bench.recorder.emit(bench.pod, "Warning", "Created", "pod 12")
    told = [(event.count, event.message, event.reporting_component) for event in await bench.events()]
    assert sorted(told[:9]) == [(1, f"pod {number}", "kubelet") for number in range(9)]
    assert told[9:] == [(3, "(combined from similar events): pod 11", ""), (1, "pod 12", "kubelet")]


async def test_alike_ones_that_come_seldom_are_not_combined(bench: EventBench) -> None:
    for number in range(12):
        await bench.recorder.emit(bench.pod, "Normal", "Created", f"pod {number}")
        await bench.clock.advance(601)
    assert len(await bench.events()) == 12


async def test_who_tells_too_much_about_one_object_is_heard_every_five_minutes(bench: EventBench) -> None:
    for number in range(30):
        await bench.recorder.emit(bench.pod, "Normal", f"Reason{number}", "text")
    assert len(await bench.events()) == 25
    await bench.clock.advance(301)
    for _ in range(2):
        await bench.recorder.emit(bench.pod, "Normal", "Reason29", "text")
    assert [event.count for event in await bench.events() if event.reason == "Reason29"] == [2]


async def test_a_recorder_that_is_not_sparing_tells_everything(bench: EventBench) -> None:
    recorder = EventRecorder(
        Performer(ActionPorts(api=bench.api)), bench.clock, "tonnage-agent", sparing=False
    )
    for number in range(30):
        await recorder.emit(bench.pod, "Normal", "Broken", f"GPU {number}")
    assert len(await bench.events()) == 30


async def test_what_is_remembered_is_bounded(bench: EventBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonnage.loop.event_correlation._REMEMBERED", 2)
    for number in (1, 2, 3, 1):
        await bench.recorder.emit(bench.pod, "Normal", "Pulled", f"image {number}")
    assert sorted(event.count for event in await bench.events()) == [1, 1, 1, 1]
    await bench.recorder.emit(bench.pod, "Normal", "Pulled", "image 1")
    assert sorted(event.count for event in await bench.events()) == [1, 1, 1, 2]


async def test_an_endless_message_is_cut(bench: EventBench) -> None:
    await bench.recorder.emit(bench.pod, "Normal", "Pulled", "x" * 5000)
    [event] = await bench.events()
    assert len(event.message) == 1024


async def test_a_failing_write_breaks_nothing(
    bench: EventBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_arguments: object, **_options: object) -> None:
        raise ClusterError(Problem("connection refused"))

    monkeypatch.setattr(bench.api, "create", refuse)
    await bench.recorder.emit(bench.pod, "Normal", "Pulled", "image present")
    assert "event not written" in caplog.text
    monkeypatch.undo()
    await bench.recorder.emit(bench.pod, "Normal", "Pulled", "image present")
    assert len(await bench.events()) == 1
