"""cronjob.ControllerV2: starts a job when its time has come, and forgets old ones.

Source: pkg/controller/cronjob/cronjob_controllerv2.go of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

import copy
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from tonnage.loop.events import recorder_over
from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.ownership import controller_of
from tonnage.loop.pod_control import message_of
from tonnage.loop.refusals import or_none
from tonnage.loop.status_writes import replace_status
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.kubernetes.timestamps import moment_of, timestamp
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.controllers.jobs.cron import Schedule, schedule_of
from tonnage.twin.controllers.jobs.cron_plan import due, job_body, job_name, next_in_s, surplus
from tonnage.twin.controllers.jobs.plan import condition, is_finished
from tonnage.wire.kinds import CRON_JOB, JOB
from tonnage.wire.objects import ObjectReference
from tonnage.wire.workloads import CronJob, CronJobStatus, Job

_IMPOSSIBLE: Final = "time difference between two schedules is less than 1 second"


class CronJobController:
    """Starts, counts and deletes the jobs of CronJobs."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._clock = clock
        self._events = recorder_over(api, clock, "cronjob-controller")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._cron_jobs = informers.of(CRON_JOB)
        self._cron_jobs.subscribe(self._changed)
        self._jobs = informers.of(JOB)
        self._jobs.add_index("namespace", lambda job: [job.metadata.namespace])
        self._jobs.subscribe(self._job_changed)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with following(self._cron_jobs, self._jobs) as group:
            group.create_task(work(self._queue, self._reconcile, workers=2))

    def _changed(self, delta: Delta[CronJob]) -> None:
        """Look at once, but for another schedule, which holds from its next time on."""
        before, after = delta.before, delta.after
        if after is None:
            return
        wait_s: float | None = None
        if before is not None and _schedule_fields(before) != _schedule_fields(after):
            with suppress(OSError, ValueError, KeyError):
                wait_s = next_in_s(after, _times_of(after), self._clock.now())
        self._queue.add_after(key_of(after), wait_s or 0.0)

    def _job_changed(self, delta: Delta[Job]) -> None:
        for job in (delta.before, delta.after):
            owner = controller_of(job) if job is not None else None
            if job is not None and owner is not None and owner.kind == CRON_JOB.kind:
                self._queue.add((job.metadata.namespace, owner.name))

    async def _reconcile(self, key: Key) -> float | None:
        before = self._cron_jobs.get(key[1], key[0])
        if before is None:
            return None
        cron_job = msgspec.structs.replace(before, status=copy.deepcopy(before.status))
        jobs = [
            job
            for job in self._jobs.by_index("namespace", key[0])
            if (owner := controller_of(job)) is not None and owner.uid == before.metadata.uid
        ]
        for job in surplus(cron_job, jobs):
            await self._delete(cron_job, job)
        failure: ClusterError | None = None
        again_s: float | None = None
        try:
            await self._look_after(cron_job, jobs)
            again_s = await self._start_due(cron_job)
        except ClusterError as error:
            failure = error
        if cron_job.status != before.status:
            await self._write(cron_job)
        if failure is not None:
            raise failure
        return again_s

    async def _look_after(self, cron_job: CronJob, jobs: list[Job]) -> None:
        """Say what has become of the jobs that were started."""
        status = cron_job.status
        active = {reference.uid for reference in status.active}
        for job in jobs:
            uid, name = job.metadata.uid, job.metadata.name
            if not is_finished(job):
                if uid not in active and not await self._knows(cron_job, uid):
                    message = f"Saw a job that the controller did not create or forgot: {name}"
                    await self._events.emit(cron_job, "Warning", "UnexpectedJob", message)
                continue
            good = condition(job, "Complete") is not None
            if uid in active:
                _forget(status, uid)
                message = f"Saw completed job: {name}, condition: {'Complete' if good else 'Failed'}"
                await self._events.emit(cron_job, "Normal", "SawCompletedJob", message)
            if good and (job.status.completion_time or "") > (status.last_successful_time or ""):
                status.last_successful_time = job.status.completion_time
        there = {job.metadata.uid for job in jobs}
        for reference in list(status.active):
            if reference.uid not in there and await self._missing(reference):
                message = f"Active job went missing: {reference.name}"
                await self._events.emit(cron_job, "Normal", "MissingJob", message)
                _forget(status, reference.uid)

    async def _knows(self, cron_job: CronJob, uid: str) -> bool:
        """Whether the CronJob as the server has it knows a job that our copy does not."""
        metadata = cron_job.metadata
        fresh = await self._api.get(CRON_JOB, metadata.name, metadata.namespace)
        return any(reference.uid == uid for reference in fresh.status.active)

    async def _missing(self, reference: ObjectReference) -> bool:
        return await or_none(self._api.get(JOB, reference.name, reference.namespace)) is None

    async def _start_due(self, cron_job: CronJob) -> float | None:
        """Start what is due; the seconds until to look again."""
        spec = cron_job.spec
        if cron_job.metadata.deletion_timestamp is not None or spec.suspend:
            return None
        schedule = await self._schedule(cron_job)
        if schedule is None:
            return None
        now = self._clock.now()
        due_time = due(cron_job, schedule, now, with_deadline=True)
        if not due_time.possible:
            message = f"invalid schedule: {cron_job.spec.schedule} : {_IMPOSSIBLE}"
            await self._events.emit(cron_job, "Warning", "InvalidSchedule", message)
            return None
        if due_time.time is not None and await self._may_start(
            cron_job, due_time.time, now, too_many=due_time.too_many
        ):
            await self._start(cron_job, due_time.time)
        return next_in_s(cron_job, schedule, now)

    async def _schedule(self, cron_job: CronJob) -> Schedule | None:
        """The schedule, None where the zone is not known any more."""
        try:
            return _times_of(cron_job)
        except (OSError, ValueError, KeyError) as error:
            zone = cron_job.spec.time_zone
            message = f'invalid timeZone: "{zone}": {error}'
            await self._events.emit(cron_job, "Warning", "UnknownTimeZone", message)
            return None

    async def _may_start(self, cron_job: CronJob, time: datetime, now: datetime, *, too_many: bool) -> bool:
        spec, status = cron_job.spec, cron_job.status
        if too_many:
            advice = "Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            message = f"too many missed start times. {advice}"
            await self._events.emit(cron_job, "Warning", "TooManyMissedTimes", message)
        deadline = spec.starting_deadline_seconds
        if deadline is not None and time + timedelta(seconds=deadline) < now:
            shown = time.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
            message = f"Missed scheduled time to start a job: {shown}"
            await self._events.emit(cron_job, "Warning", "MissSchedule", message)
            return False
        last = status.last_schedule_time
        name = job_name(cron_job, time)
        if any(reference.name == name for reference in status.active) or (last and moment_of(last) == time):
            return False
        if spec.concurrency_policy == "Forbid" and status.active:
            why = "because prior execution is running and concurrency policy is Forbid"
            await self._events.emit(cron_job, "Normal", "JobAlreadyActive", f"Not starting job {why}")
            return False
        return True

    async def _start(self, cron_job: CronJob, time: datetime) -> None:
        if cron_job.spec.concurrency_policy == "Replace":
            for reference in list(cron_job.status.active):
                job = await self._api.get(JOB, reference.name, reference.namespace)
                await self._delete(cron_job, job)
        namespace = cron_job.metadata.namespace
        try:
            job = await self._api.create(JOB, job_body(cron_job, time), namespace=namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":  # of which a genuine controller says nothing, and tries again
                why = f"Error creating job: {message_of(error)}"
                await self._events.emit(cron_job, "Warning", "FailedCreate", why)
            raise
        message = f"Created job {job.metadata.name}"
        await self._events.emit(cron_job, "Normal", "SuccessfulCreate", message)
        reference = ObjectReference(
            api_version=JOB.api_version,
            kind=JOB.kind,
            name=job.metadata.name,
            namespace=namespace,
            uid=job.metadata.uid,
            resource_version=job.metadata.resource_version,
        )
        cron_job.status.active = [*cron_job.status.active, reference]
        cron_job.status.last_schedule_time = timestamp(time)

    async def _delete(self, cron_job: CronJob, job: Job) -> None:
        metadata = job.metadata
        try:
            await self._api.delete(JOB, metadata.name, namespace=metadata.namespace, uid=metadata.uid)
        except ApiError as error:
            if error.code not in (404, 409):
                message = f"Deleted job: {message_of(error)}"
                await self._events.emit(cron_job, "Warning", "FailedDelete", message)
                raise
        _forget(cron_job.status, metadata.uid)
        message = f"Deleted job {metadata.name}"
        await self._events.emit(cron_job, "Normal", "SuccessfulDelete", message)

    async def _write(self, cron_job: CronJob) -> None:
        status = msgspec.to_builtins(cron_job.status)
        await or_none(replace_status(self._api, CRON_JOB, cron_job, status))


def _schedule_fields(cron_job: CronJob) -> tuple[str, str | None]:
    return cron_job.spec.schedule, cron_job.spec.time_zone


def _times_of(cron_job: CronJob) -> Schedule:
    return schedule_of(cron_job.spec.schedule, ZoneInfo(cron_job.spec.time_zone or "UTC"))


def _forget(status: CronJobStatus, uid: str) -> None:
    status.active = [reference for reference in status.active if reference.uid != uid]
