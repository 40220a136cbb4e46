"""job.Controller: pods until enough have succeeded, or too many failed, each counted once.

Source: pkg/controller/job and pkg/controller/ttlafterfinished of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

import copy
from typing import Final

import msgspec

from tonnage.loop.events import recorder_over
from tonnage.loop.expectations import Expectations
from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.ownership import Ownership, controller_of
from tonnage.loop.pod_control import PodControl, in_batches
from tonnage.loop.refusals import passing_over
from tonnage.loop.status_writes import replace_status
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.twin.controllers import pod_state
from tonnage.twin.controllers.jobs.plan import (
    SUCCESS_MET,
    deadline_in_s,
    is_complete,
    is_finished,
    new_condition,
    next_deadline,
    pods_to_change,
    verdict,
)
from tonnage.twin.controllers.jobs.pods import FINALIZER, FailureStreak, tracked
from tonnage.twin.controllers.jobs.template import job_pod
from tonnage.twin.controllers.jobs.tracking import enact, ensure, settle, track
from tonnage.twin.controllers.jobs.view import JobView
from tonnage.twin.controllers.label_selection import owner_selects
from tonnage.wire.kinds import JOB, POD
from tonnage.wire.objects import Pod
from tonnage.wire.workloads import Job, JobCondition, JobStatus, UncountedPods

_OURS: Final = ("", "kubernetes.io/job-controller")
_UNSEEN_S: Final = 30.0
_FIRST_RETRY_S: Final = 1.0


class JobController:
    """Makes and deletes pods of Jobs, counts them, ends Jobs, and deletes ended ones in time."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._clock = clock
        self._events = recorder_over(api, clock, "job-controller")
        self._queue: WorkQueue[Key] = WorkQueue(clock, first_retry_s=_FIRST_RETRY_S)
        self._orphans: WorkQueue[Key] = WorkQueue(clock, first_retry_s=_FIRST_RETRY_S)
        self._jobs = informers.of(JOB, self._queue.add)
        self._jobs.subscribe(self._job_changed)
        self._pods = informers.of(POD)
        self._pods.add_index("namespace", lambda pod: [pod.metadata.namespace])
        self._pods.subscribe(self._pod_changed)
        self._expected = Expectations(clock)
        self._control = PodControl(api, self._events, self._expected, self._pods)
        self._ownership = Ownership(api, JOB, POD, owner_selects, finalizer=FINALIZER)
        self._released: set[str] = set()
        """Uids of pods that were let go and that the copy still shows as held."""
        self._backoffs: dict[Key, FailureStreak] = {}
        self._written: dict[Key, int] = {}
        """The version of a job as it was written last: an older copy would be told everything again."""

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with following(self._jobs, self._pods) as group:
            group.create_task(work(self._queue, self._reconcile, workers=4))
            group.create_task(work(self._orphans, self._let_orphan_go))

    def _job_changed(self, delta: Delta[Job]) -> None:
        job = delta.after or delta.before
        if job is None or (delta.after is not None and not is_finished(delta.after)):
            return
        for pod in self._pods.by_index("namespace", job.metadata.namespace):
            owner = controller_of(pod)
            if tracked(pod) and owner is not None and owner.uid == job.metadata.uid:
                self._orphans.add(key_of(pod))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        self._expected.observe(delta)
        if delta.after is None or not tracked(delta.after):
            self._released.discard((delta.after or delta.before or Pod()).metadata.uid)
        for pod in (delta.before, delta.after):
            owner = controller_of(pod) if pod is not None else None
            if pod is not None and owner is not None and owner.kind == JOB.kind:
                self._queue.add((pod.metadata.namespace, owner.name))
        if delta.after is not None and tracked(delta.after):
            self._orphans.add(key_of(delta.after))

    async def _let_orphan_go(self, key: Key) -> None:
        """Let go of a pod that no job will count."""
        pod = self._pods.get(key[1], key[0])
        if pod is None or not tracked(pod):
            return
        owner = controller_of(pod)
        if owner is not None:
            job = self._jobs.get(owner.name, key[0]) if owner.kind == JOB.kind else None
            counted = job is not None and job.metadata.uid == owner.uid and not is_finished(job)
            if owner.kind != JOB.kind or counted:
                return
        await self._release(pod)

    async def _reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(key[1], key[0])
        if job is None or job.spec.managed_by not in _OURS:
            self._backoffs.pop(key, None)
            self._written.pop(key, None)
            return None
        if int(job.metadata.resource_version) < self._written.get(key, 0):
            return None  # its change is on its way
        if is_finished(job):
            self._backoffs.pop(key, None)
            return await self._expire(job)
        satisfied = self._expected.satisfied(key)
        pods = await self._ownership.settle(job, self._pods.by_index("namespace", key[0]))
        status = copy.deepcopy(job.status)
        status.uncounted_terminated_pods = status.uncounted_terminated_pods or UncountedPods()
        if status.start_time is None and not job.spec.suspend:
            status.start_time = timestamp(self._clock.now())
        job = msgspec.structs.replace(job, status=status)
        before = msgspec.structs.replace(job, status=copy.deepcopy(status))
        view = JobView(before, tuple(pods), frozenset(self._released), self._clock.now())
        return await self._step(key, job, view, satisfied=satisfied)

    async def _step(self, key: Key, job: Job, view: JobView, *, satisfied: bool) -> float | None:
        """One round. `job.status` is what is to be written; `view` holds what was read."""
        backoff = self._backoffs.get(key, FailureStreak()).after(view.new_succeeded, view.new_failed)
        status, before = job.status, copy.deepcopy(job.status)
        status.active, status.ready = len(view.active), sum(map(pod_state.is_ready, view.active))
        status.terminating = sum(map(pod_state.is_terminating, view.pods))
        end, again_s, failure = verdict(view), None, None
        announced = False
        try:
            if end is not None:
                await self._delete(job, view.active, release=False)
                end = end if satisfied else None
            elif satisfied and job.metadata.deletion_timestamp is None:
                again_s = await self._manage(job, view, backoff)
        except ClusterError as error:
            end, failure = None, error
        if end is None and failure is None and verdict(view) is None:
            if is_complete(view, status.active):
                words = "Reached expected number of succeeded pods"
                end = new_condition(SUCCESS_MET, "CompletionsReached", words, view.now)
            elif satisfied and job.metadata.deletion_timestamp is None:
                announced = await self._tell_suspension(job)
        counts = (before.active, before.ready, before.terminating)
        fresh = announced or counts != (status.active, status.ready, status.terminating)
        await self._count(key, job, view, end, backoff, fresh=fresh)
        if failure is not None:
            raise failure
        if not satisfied:
            again_s = _UNSEEN_S
        waits = [wait for wait in (again_s, deadline_in_s(view)) if wait is not None and wait > 0]
        return min(waits, default=None)

    async def _manage(self, job: Job, view: JobView, backoff: FailureStreak) -> float | None:
        change = pods_to_change(view, backoff)
        await self._delete(job, change.delete, release=True)
        await in_batches(change.make, lambda number: self._make(job, view, number))
        return change.again_s

    async def _make(self, job: Job, view: JobView, number: int) -> None:
        index = number if view.indexed else None
        body = job_pod(job, index, view.to_replace.get(number) if view.per_index else None)
        if await self._control.make(job, body) is not None:
            job.status.active += 1

    async def _delete(self, job: Job, pods: tuple[Pod, ...] | list[Pod], *, release: bool) -> None:
        for pod in pods:
            if release:
                await self._release(pod)
            await self._control.delete(job, pod)
            job.status.active -= 1
            job.status.terminating = (job.status.terminating or 0) + 1
            job.status.ready = (job.status.ready or 0) - pod_state.is_ready(pod)

    async def _tell_suspension(self, job: Job) -> bool:
        now = self._clock.now()
        if job.spec.suspend:
            suspension = new_condition("Suspended", "JobSuspended", "Job suspended", now)
            if not ensure(job.status, suspension):
                return False
            await self._events.emit(job, "Normal", "Suspended", "Job suspended")
            return True
        suspension = new_condition("Suspended", "JobResumed", "Job resumed", now, status="False")
        if not ensure(job.status, suspension):
            return False
        job.status.start_time = timestamp(now)
        await self._events.emit(job, "Normal", "Resumed", "Job resumed")
        return True

    async def _count(
        self,
        key: Key,
        job: Job,
        view: JobView,
        end: JobCondition | None,
        backoff: FailureStreak,
        *,
        fresh: bool,
    ) -> None:
        """Write what has ended, let it go, write the counts, and with them perhaps the job's end."""
        status = job.status
        tracking = track(view, status, end)
        if fresh or tracking.changed:
            job = await self._write(job, status)
            status = copy.deepcopy(job.status)
            self._backoffs[key] = backoff
        held = {pod.metadata.uid for pod in view.pods if view.held(pod)}
        for pod in tracking.release:
            await self._release(pod)
            held.discard(pod.metadata.uid)
        changed = settle(status, held)
        ended = enact(status, tracking.end, self._clock.now())
        if changed or ended:
            await self._write(job, status)
        if ended and tracking.end is not None:
            await self._tell_end(job, status, tracking.end)

    async def _tell_end(self, job: Job, status: JobStatus, end: JobCondition) -> None:
        if end.type != "Complete":
            await self._events.emit(job, "Warning", end.reason, end.message)
            return
        if job.spec.completions is not None and status.succeeded > job.spec.completions:
            words = "Too many succeeded pods running after completion count reached"
            await self._events.emit(job, "Warning", "TooManySucceededPods", words)
        await self._events.emit(job, "Normal", "Completed", "Job completed")

    async def _release(self, pod: Pod) -> None:
        """Let a pod go, so that it may be deleted."""
        if not tracked(pod) or pod.metadata.uid in self._released:
            return
        patch: JsonObject = {
            "metadata": {"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
        }
        self._released.add(pod.metadata.uid)
        try:
            await self._api.patch(
                POD,
                pod.metadata.name,
                patch,
                namespace=pod.metadata.namespace,
                patch_type=PatchType.STRATEGIC,
            )
        except ClusterError as error:
            self._released.discard(pod.metadata.uid)
            if not isinstance(error, ApiError) or error.code not in (404, 409):
                raise

    async def _write(self, job: Job, status: JobStatus) -> Job:
        stored = await replace_status(self._api, JOB, job, msgspec.to_builtins(status))
        self._written[key_of(job)] = int(stored.metadata.resource_version)
        return stored

    async def _expire(self, job: Job) -> float | None:
        """Delete an ended job whose time to live is over; else the seconds until it is."""
        wait = next_deadline(job, self._clock.now())
        if wait is None or wait > 0 or job.metadata.deletion_timestamp is not None:
            return wait if job.metadata.deletion_timestamp is None else None
        metadata = job.metadata
        with passing_over(404, 409):
            await self._api.delete(
                JOB, metadata.name, namespace=metadata.namespace, propagation="Foreground", uid=metadata.uid
            )
        return None
