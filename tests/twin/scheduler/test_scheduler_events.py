"""Events of the scheduler: series of events.k8s.io."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from support.api_stores import new_store
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.twin.scheduler.events import SeriesRecorder, Telling
from tonnage.wire.kinds import EVENT, POD
from tonnage.wire.objects import ObjectReference, Pod


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def api(clock: VirtualClock) -> KubernetesApi:
    return ApiServer(clock, random=Random(1), store=new_store()).local()


@pytest.fixture
async def pod(api: KubernetesApi) -> Pod:
    containers = [{"name": "main", "image": "cuda"}]
    body: dict[str, Any] = {"metadata": {"name": "train"}, "spec": {"containers": containers}}
    return await api.create(POD, body, namespace="default")


async def test_what_recurs_about_one_version_of_an_object_is_a_series(
    clock: VirtualClock, api: KubernetesApi, pod: Pod
) -> None:
    recorder = SeriesRecorder(api, clock, "default-scheduler", "host")
    running = asyncio.create_task(recorder.run())
    failed = Telling("Warning", "FailedScheduling", "Scheduling")
    for note in ("no node", "no node", "still none"):
        await recorder.emit(pod, failed, note)
    [event] = (await api.list(EVENT)).items
    assert (event.message, event.action, event.type, event.reason) == (
        "no node",
        "Scheduling",
        "Warning",
        "FailedScheduling",
    )
    assert (event.reporting_component, event.reporting_instance) == (
        "default-scheduler",
        "default-scheduler-host",
    )
    assert (event.event_time, event.first_timestamp) == ("2026-01-01T00:00:00.000000Z", None)
    assert event.series == {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}
    for _ in range(3):
        await clock.advance(361)
    [ended] = (await api.list(EVENT)).items
    assert ended.series["count"] == 3
    await recorder.emit(pod, failed, "no node")
    assert len((await api.list(EVENT)).items) == 2
    running.cancel()


async def test_another_version_of_an_object_has_events_of_its_own(
    clock: VirtualClock, api: KubernetesApi, pod: Pod
) -> None:
    recorder = SeriesRecorder(api, clock, "default-scheduler", "host")
    scheduled = Telling("Normal", "Scheduled", "Binding", related=pod)
    await recorder.emit(pod, scheduled, "assigned")
    pod = await api.patch(POD, "train", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    await recorder.emit(pod, scheduled, "assigned")
    told = [
        (event.series, (event.related or ObjectReference()).name) for event in (await api.list(EVENT)).items
    ]
    assert told == [({}, "train"), ({}, "train")]
