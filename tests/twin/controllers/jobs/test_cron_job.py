"""CronJobs on the twin: when jobs are started, and which are kept."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tonnage.twin.controllers.jobs.cron import schedule_of
from tonnage.twin.controllers.jobs.cron_job import CronJobController
from tonnage.twin.controllers.jobs.job import JobController
from tonnage.wire.kinds import CRON_JOB, JOB, POD

Cluster = Any
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("schedule", "moment", "times"),
    [
        pytest.param("*/20 * * * *", "2026-01-01T00:00:00", ["01T00:20", "01T00:40", "01T01:00"], id="steps"),
        pytest.param(
            "5/25 3 * * *", "2026-01-01T00:00:00", ["01T03:05", "01T03:30", "01T03:55"], id="from on"
        ),
        pytest.param("0 0 * feb mon", "2026-01-01T00:00:00", ["02T00:00", "09T00:00"], id="names"),
        pytest.param("0 0 13 * 5", "2026-01-01T00:00:00", ["02T00:00", "09T00:00", "13T00:00"], id="or"),
        pytest.param("0 0 13 * *", "2026-01-01T00:00:00", ["13T00:00", "13T00:00"], id="a day of the month"),
        pytest.param("@weekly", "2026-01-01T00:00:00", ["04T00:00", "11T00:00"], id="a word"),
        pytest.param("@every 90s", "2026-01-01T00:00:00", ["01T00:01", "01T00:03"], id="so often"),
        pytest.param("30,0 22-23 * * 1-5", "2026-01-02T23:00:00", ["02T23:30", "05T22:00"], id="ranges"),
    ],
)
def test_times_of_a_schedule(schedule: str, moment: str, times: list[str]) -> None:
    found = schedule_of(schedule, UTC)
    now: datetime | None = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    for expected in times:
        assert now is not None
        now = found.after(now)
        assert now is not None
        assert now.strftime("%dT%H:%M") == expected


def test_an_hour_that_clocks_skip_never_comes_and_one_repeated_comes_twice() -> None:
    daily = schedule_of("30 2 * * *", BERLIN)
    # 29 March 2026: 2:00 becomes 3:00.
    assert daily.after(datetime(2026, 3, 28, 12, tzinfo=UTC)) == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)
    # 25 October 2026: 3:00 becomes 2:00.
    first = daily.after(datetime(2026, 10, 24, 12, tzinfo=UTC))
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert daily.after(first) == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


def test_a_day_that_never_comes() -> None:
    assert schedule_of("0 0 30 2 *", UTC).after(datetime(2026, 1, 1, tzinfo=UTC)) is None


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(CronJobController(cluster.api, cluster.clock, cluster.informers).run())
    cluster.start(JobController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


async def start(cluster: Cluster, schedule: str = "* * * * *", **spec: Any) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    body = {"schedule": schedule, "jobTemplate": {"spec": {"template": template}}, **spec}
    await cluster.apply(CRON_JOB, "tick", {"spec": body})


async def minutes(cluster: Cluster, count: int, *, phase: str = "") -> None:
    """Let time pass; pods end in this phase."""
    for _ in range(count):
        await cluster.clock.advance(60.5)
        for pod in await cluster.all(POD) if phase else ():
            if pod.status.phase == "Pending":
                await cluster.set_pod(pod, ready=False, phase=phase)
        await cluster.clock.advance(0)


async def jobs(cluster: Cluster) -> list[str]:
    return [job.metadata.name for job in await cluster.all(JOB)]


async def test_a_job_is_started_each_time_and_three_good_ones_are_kept(running: Cluster) -> None:
    await start(running)
    await minutes(running, 5, phase="Succeeded")
    minute = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) // 60
    assert await jobs(running) == [f"tick-{minute + n}" for n in (3, 4, 5)]
    status = (await running.api.get(CRON_JOB, "tick", "default")).status
    assert (status.active, status.last_schedule_time) == ([], "2026-01-01T00:05:00Z")
    assert status.last_successful_time is not None
    assert (await running.events("SuccessfulDelete"))[0] == f"Deleted job tick-{minute + 1}"


@pytest.mark.parametrize(
    ("policy", "living", "event"),
    [
        pytest.param("Allow", 3, "SuccessfulCreate", id="beside each other"),
        pytest.param("Forbid", 1, "JobAlreadyActive", id="never two"),
        pytest.param("Replace", 1, "SuccessfulDelete", id="the last one"),
    ],
)
async def test_jobs_that_last_meet_the_policy(running: Cluster, policy: str, living: int, event: str) -> None:
    await start(running, concurrencyPolicy=policy)
    await minutes(running, 3)
    assert len([job for job in await running.all(JOB) if not job.metadata.deletion_timestamp]) == living
    assert await running.events(event)


async def test_nothing_is_started_while_suspended_or_too_late(running: Cluster) -> None:
    await start(running, suspend=True, startingDeadlineSeconds=20)
    await running.clock.advance(150)
    await running.api.patch(CRON_JOB, "tick", {"spec": {"suspend": False}}, namespace="default")
    await running.clock.advance(1)
    assert await jobs(running) == []
    await running.clock.advance(30)
    assert len(await jobs(running)) == 1


async def test_a_job_that_vanishes_is_missed(running: Cluster) -> None:
    await start(running)
    await minutes(running, 1)
    [name] = await jobs(running)
    await running.api.delete(JOB, name, namespace="default")
    await running.clock.advance(1)
    assert await running.events("MissingJob") == [f"Active job went missing: {name}"]


async def test_a_zone_moves_the_times(running: Cluster) -> None:
    await start(running, "0 1 * * *", timeZone="Europe/Berlin")
    await running.clock.advance(24 * 3600 + 1)
    [job] = await running.all(JOB)
    stamp = job.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert stamp == "2026-01-02T01:00:00+01:00"


async def test_a_schedule_that_never_comes_is_told_as_invalid(running: Cluster) -> None:
    await start(running, "0 0 31 2 *")
    await running.clock.advance(120)
    why = "time difference between two schedules is less than 1 second"
    assert await running.events("InvalidSchedule") == [f"invalid schedule: 0 0 31 2 * : {why}"]
    assert await jobs(running) == []


async def test_another_schedule_holds_from_its_next_time_on(running: Cluster) -> None:
    await start(running, schedule="0 0 1 6 *")
    past: Any = {"status": {"lastScheduleTime": "2024-01-01T00:00:00Z"}}
    await running.api.patch(CRON_JOB, "tick", {"spec": {"suspend": True}}, namespace="default")
    await running.api.patch(CRON_JOB, "tick", past, namespace="default", subresource="status")
    await running.clock.advance(1)
    await running.api.patch(
        CRON_JOB, "tick", {"spec": {"suspend": False, "schedule": "*/5 * * * *"}}, namespace="default"
    )
    await running.clock.advance(240)
    assert await jobs(running) == [], "what was missed before is made up for at the next time"
    await running.clock.advance(60)
    assert len(await jobs(running)) == 1


async def test_a_job_that_is_there_already_is_not_taken_for_the_one_to_start(running: Cluster) -> None:
    await start(running, schedule="*/5 * * * *")
    await running.clock.advance(301)
    forgotten: Any = {"status": {"lastScheduleTime": None, "active": None}}
    await running.api.patch(CRON_JOB, "tick", forgotten, namespace="default", subresource="status")
    await running.clock.advance(30)
    status = (await running.api.get(CRON_JOB, "tick", "default")).status
    assert (status.active, status.last_schedule_time) == ([], None)
    assert (await running.events("UnexpectedJob"))[0].endswith(f"forgot: {(await jobs(running))[0]}")
    await running.clock.advance(300)
    assert len(await jobs(running)) == 2
