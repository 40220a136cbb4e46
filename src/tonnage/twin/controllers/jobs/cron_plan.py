"""Which of a CronJob's times is due, and when to look again.

Source: mostRecentScheduleTime and its callers in pkg/controller/cronjob/utils.go (v1.35).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from tonnage.loop.ownership import controller_reference
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import moment_of
from tonnage.twin.controllers.jobs.cron import Schedule
from tonnage.twin.controllers.jobs.plan import condition
from tonnage.wire.kinds import CRON_JOB
from tonnage.wire.workloads import CronJob, Job

_DELTA: Final = timedelta(milliseconds=100)
_MANY: Final = 100
_SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"


@dataclass(frozen=True, slots=True)
class Due:
    """The latest time that has come, None if none has; how many have been missed; from when on it counts.

    It is not `possible` for a schedule of which no two times ever come, such as the 31st of February.
    """

    time: datetime | None
    missed: int
    since: datetime
    possible: bool = True

    @property
    def too_many(self) -> bool:
        """Whether so many were missed that something is wrong."""
        return self.missed > _MANY


def due(cron_job: CronJob, schedule: Schedule, now: datetime, *, with_deadline: bool) -> Due:
    """What has come round since the last time, but for what is too late to be begun."""
    since = moment_of(cron_job.metadata.creation_timestamp or "1970-01-01T00:00:00Z")
    if cron_job.status.last_schedule_time:
        since = moment_of(cron_job.status.last_schedule_time)
    deadline = cron_job.spec.starting_deadline_seconds
    if with_deadline and deadline is not None:
        since = max(since, now - timedelta(seconds=deadline))
    first = schedule.after(since)
    if first is None:
        return Due(None, 0, since, possible=False)
    if now < first:
        return Due(None, 0, since)
    second = schedule.after(first)
    if second is None:
        return Due(None, 0, since, possible=False)
    if now < second:
        return Due(first, 0, since)
    pause = second - first
    missed = int((now - first) / pause) + 1
    latest: datetime | None = None
    time = schedule.after(first + (missed - 2) * pause)
    while time is not None and time <= now:
        latest, time = time, schedule.after(time)
    return Due(latest, missed, since)


def next_in_s(cron_job: CronJob, schedule: Schedule, now: datetime) -> float | None:
    """Seconds until the next time that is to come."""
    due_time = due(cron_job, schedule, now, with_deadline=False)
    base = due_time.time or (due_time.since if not due_time.missed and due_time.possible else now)
    time = schedule.after(base)
    return None if time is None else max((time + _DELTA - now).total_seconds(), 0.0)


def job_name(cron_job: CronJob, time: datetime) -> str:
    """The name of the job of a time, which is the same however often it is made."""
    return f"{cron_job.metadata.name}-{int(time.timestamp()) // 60}"


def job_body(cron_job: CronJob, time: datetime) -> JsonObject:
    """The job of a time."""
    template = cron_job.spec.job_template
    metadata = template.get("metadata") or {}
    local = time.astimezone(ZoneInfo(cron_job.spec.time_zone or "UTC"))
    shown = local.isoformat(timespec="seconds").replace("+00:00", "Z")
    body: JsonObject = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(cron_job, time),
            "namespace": cron_job.metadata.namespace,
            "annotations": {**(metadata.get("annotations") or {}), _SCHEDULED: shown},
            "ownerReferences": [controller_reference(cron_job, CRON_JOB)],
        },
        "spec": template.get("spec") or {},
    }
    if metadata.get("labels"):
        body["metadata"]["labels"] = metadata["labels"]  # type: ignore[index,call-overload]
    return body


def surplus(cron_job: CronJob, jobs: list[Job]) -> list[Job]:
    """Ended jobs beyond what is to be remembered, the oldest first."""
    spec = cron_job.spec
    jobs_to_delete: list[Job] = []
    for kind, limit in (
        ("Complete", spec.successful_jobs_history_limit),
        ("Failed", spec.failed_jobs_history_limit),
    ):
        ended = [job for job in jobs if condition(job, kind) is not None]
        ended.sort(key=lambda job: (job.status.start_time or "9999", job.metadata.name))
        if limit is not None:
            jobs_to_delete += ended[: max(len(ended) - limit, 0)]
    return jobs_to_delete
