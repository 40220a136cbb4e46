"""trackJobStatusAndRemoveFinalizers: pods are noted in the status, let go, then counted, once each.

Source: trackJobStatusAndRemoveFinalizers in pkg/controller/job (v1.35).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tonnage.twin.controllers.jobs.indexes import Indexes
from tonnage.twin.controllers.jobs.plan import FAILURE_TARGET, SUCCESS_MET, new_condition
from tonnage.twin.controllers.jobs.pods import index_of, is_failed, judged
from tonnage.twin.controllers.jobs.view import JobView
from tonnage.wire.objects import Pod
from tonnage.wire.workloads import JobCondition, JobStatus, UncountedPods

_MOST_UNCOUNTED: Final = 500


@dataclass(frozen=True, slots=True)
class Tracked:
    """Pods to let go, whether the status must be written before, and how the job will have ended."""

    release: tuple[Pod, ...]
    changed: bool
    end: JobCondition | None


def track(view: JobView, status: JobStatus, end: JobCondition | None) -> Tracked:
    """Note in `status`, which is changed in place, the pods that have ended."""
    held = {pod.metadata.uid for pod in view.pods if view.held(pod)}
    changed = settle(status, held)
    uncounted = _uncounted(status)
    before = (len(uncounted.succeeded), len(uncounted.failed))
    release: list[Pod] = []
    done: list[int] = []
    whole = True
    pods = sorted(view.pods, key=lambda pod: index_of(pod) or 0) if view.indexed else view.pods
    for pod in pods:
        if not view.held(pod) or not _may_go(view, pod, end):
            continue
        release.append(pod)
        _note(view, pod, end, uncounted, done)
        if len(done) + len(uncounted.succeeded) + len(uncounted.failed) >= _MOST_UNCOUNTED:
            whole = False
            break
    changed |= bool(done) or before != (len(uncounted.succeeded), len(uncounted.failed))
    if view.indexed:
        changed |= _write_indexes(view, status, done)
    final, added = _announce(status, end, view.now)
    return Tracked(tuple(release), changed or added, final if whole else None)


def _may_go(view: JobView, pod: Pod, end: JobCondition | None) -> bool:
    if view.job.metadata.deletion_timestamp is not None or end is not None:
        return True
    if pod.status.phase == "Succeeded":
        return True
    if not is_failed(pod, view.job):
        return False
    index = index_of(pod)
    waiting = view.to_replace.get(index) if index is not None else None
    return waiting is None or waiting.metadata.uid != pod.metadata.uid


def _note(
    view: JobView, pod: Pod, end: JobCondition | None, uncounted: UncountedPods, done: list[int]
) -> None:
    uid, index = pod.metadata.uid, view.valid_index(pod)
    if pod.status.phase == "Succeeded" and uid not in view.uncounted.failed:
        if view.indexed:
            if index is not None and index not in view.known_indexes:
                done.append(index)
        elif uid not in uncounted.succeeded:
            uncounted.succeeded.append(uid)
        return
    # Of a job that has failed every pod has.
    if is_failed(pod, view.job) or (end is not None and end.type != SUCCESS_MET):
        valid = not view.indexed or index is not None
        if valid and uid not in uncounted.failed and judged(pod, view.job).counts:
            uncounted.failed.append(uid)


def _write_indexes(view: JobView, status: JobStatus, done: list[int]) -> bool:
    indexes = view.succeeded_indexes | Indexes.of(done)
    failed = None if view.failed_indexes is None else str(view.failed_indexes)
    changed = (str(indexes), failed) != (status.completed_indexes, status.failed_indexes)
    status.succeeded, status.completed_indexes, status.failed_indexes = len(indexes), str(indexes), failed
    return changed


def _announce(status: JobStatus, end: JobCondition | None, now: datetime) -> tuple[JobCondition | None, bool]:
    """Say how the job will end before its pods are let go; the condition that it ends with."""
    if end is None:
        return None, False
    if end.type == FAILURE_TARGET:
        status.conditions = [*status.conditions, end]
        return new_condition("Failed", end.reason, end.message, now), True
    if end.type == SUCCESS_MET:
        fresh = all(condition.type != SUCCESS_MET for condition in status.conditions)
        if fresh:
            status.conditions = [*status.conditions, end]
        return new_condition("Complete", end.reason, end.message, now), fresh
    return end, False


def settle(status: JobStatus, held: Collection[str]) -> bool:
    """Count the noted pods that are not held any more; whether there were any."""
    uncounted = _uncounted(status)
    succeeded = [uid for uid in uncounted.succeeded if uid in held]
    failed = [uid for uid in uncounted.failed if uid in held]
    status.succeeded += len(uncounted.succeeded) - len(succeeded)
    status.failed += len(uncounted.failed) - len(failed)
    changed = (len(succeeded), len(failed)) != (len(uncounted.succeeded), len(uncounted.failed))
    uncounted.succeeded, uncounted.failed = succeeded, failed
    return changed


def _uncounted(status: JobStatus) -> UncountedPods:
    if status.uncounted_terminated_pods is None:
        status.uncounted_terminated_pods = UncountedPods()
    return status.uncounted_terminated_pods


def enact(status: JobStatus, end: JobCondition | None, now: datetime) -> bool:
    """End the job if no pod is left to be counted or to go; whether it ends."""
    uncounted = _uncounted(status)
    if end is None or uncounted.succeeded or uncounted.failed or status.terminating:
        return False
    ensure(status, new_condition(end.type, end.reason, end.message, now, status=end.status))
    if end.type == "Complete":
        status.completion_time = end.last_transition_time
    return True


def ensure(status: JobStatus, condition: JobCondition) -> bool:
    """Have the condition among the others, a false one only in place of a true one; whether it is news."""
    for place, old in enumerate(status.conditions):
        if old.type != condition.type:
            continue
        if (old.status, old.reason, old.message) == (condition.status, condition.reason, condition.message):
            return False
        status.conditions = [*status.conditions[:place], condition, *status.conditions[place + 1 :]]
        return True
    if condition.status == "False":
        return False
    status.conditions = [*status.conditions, condition]
    return True
