"""What a Job needs now: pods to make and to delete, whether it has ended, and which pods are counted.

Source: syncJob, manageJob and trackJobStatusAndRemoveFinalizers in pkg/controller/job (v1.35).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tonnage.model.kubernetes.timestamps import moment_of, timestamp
from tonnage.twin.controllers import pod_state
from tonnage.twin.controllers.jobs.indexes import Indexes
from tonnage.twin.controllers.jobs.pods import (
    FailureStreak,
    all_failures,
    finished_at,
    index_of,
    is_failed,
    judged,
    only_replaces_failed,
    restarts,
)
from tonnage.twin.controllers.jobs.view import JobView
from tonnage.wire.objects import Pod
from tonnage.wire.workloads import Job, JobCondition

MOST_AT_ONCE: Final = 500
FAILURE_TARGET: Final = "FailureTarget"
SUCCESS_MET: Final = "SuccessCriteriaMet"


def condition(job: Job, kind: str) -> JobCondition | None:
    """The job's condition of this type, where it is true."""
    return next(
        (entry for entry in job.status.conditions if entry.type == kind and entry.status == "True"), None
    )


def is_finished(job: Job) -> bool:
    """Whether nothing will become of the job any more."""
    return condition(job, "Complete") is not None or condition(job, "Failed") is not None


def new_condition(
    kind: str, reason: str, message: str, now: datetime, *, status: str = "True"
) -> JobCondition:
    """A condition as of now."""
    moment = timestamp(now)
    return JobCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_probe_time=moment,
        last_transition_time=moment,
    )


def verdict(view: JobView) -> JobCondition | None:
    """Why the job ends now, apart from having enough completions; None while it goes on.

    The condition's type is FailureTarget or SuccessCriteriaMet, or Failed for a job that was to fail already.
    """
    job = view.job
    met = condition(job, SUCCESS_MET)
    if met is not None:
        return met
    target = condition(job, FAILURE_TARGET)
    if target is not None:
        return new_condition("Failed", target.reason, target.message, view.now)
    if job.spec.pod_failure_policy is not None:
        for pod in view.pods:
            if is_failed(pod, job) and (why := judged(pod, job).fails_job):
                return new_condition(FAILURE_TARGET, "PodFailurePolicy", why, view.now)
    failure = _failure(view)
    if failure is not None:
        return new_condition(FAILURE_TARGET, *failure, view.now)
    place = _success_rule(view)
    if place is not None:
        return new_condition(SUCCESS_MET, "SuccessPolicy", f"Matched rules at index {place}", view.now)
    return None


def _failure(view: JobView) -> tuple[str, str] | None:
    spec = view.job.spec
    restarted = sum(map(restarts, view.pods)) if _restart_policy(view.job) == "OnFailure" else 0
    if view.failed > spec.backoff_limit or (restarted and restarted >= spec.backoff_limit):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    elapsed, deadline = view.active_s(), spec.active_deadline_seconds
    if deadline is not None and elapsed is not None and elapsed >= deadline and not spec.suspend:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    failed = view.failed_indexes
    if failed is not None:
        if spec.max_failed_indexes is not None and len(failed) > spec.max_failed_indexes:
            words = "Job has exceeded the specified maximal number of failed indexes"
            return "MaxFailedIndexesExceeded", words
        if len(failed) and len(failed) + len(view.succeeded_indexes) >= view.completions:
            return "FailedIndexes", "Job has failed indexes"
    return None


def _restart_policy(job: Job) -> str:
    return str((job.spec.template.get("spec") or {}).get("restartPolicy", ""))


def _success_rule(view: JobView) -> int | None:
    """The place of the first rule of the success policy that is satisfied."""
    done = view.succeeded_indexes if view.indexed else Indexes()
    if not len(done):
        return None
    for place, rule in enumerate((view.job.spec.success_policy or {}).get("rules") or []):
        count, text = rule.get("succeededCount"), rule.get("succeededIndexes")
        if text is None:
            if count is not None and len(done) >= count:
                return place
            continue
        indexes = Indexes.parsed(text, view.completions)
        both = indexes & done
        if len(indexes) and (both == len(indexes) or (count is not None and both >= count)):
            return place
    return None


def deadline_in_s(view: JobView) -> float | None:
    """Seconds until the job has been active for too long."""
    elapsed, deadline = view.active_s(), view.job.spec.active_deadline_seconds
    if deadline is None or view.job.spec.suspend:
        return None
    return deadline - (elapsed or 0.0)


def is_complete(view: JobView, active: int) -> bool:
    """Whether enough pods have succeeded and none runs any more."""
    if view.job.spec.completions is None:
        return view.succeeded > 0 and active == 0
    return view.succeeded >= view.completions and active == 0


@dataclass(frozen=True, slots=True)
class JobPodPlan:
    """Pods to delete, or to make: one per number, which is the index where the job has such."""

    delete: tuple[Pod, ...] = ()
    make: tuple[int, ...] = ()
    again_s: float | None = None


def pods_to_change(view: JobView, backoff: FailureStreak) -> JobPodPlan:
    """Bring the number of pods to what the job asks for; deletions come before creations."""
    active = view.active
    if view.job.spec.suspend:
        return JobPodPlan(delete=tuple(_removable(view, len(active))))
    desired = _desired_pods(view, len(active))
    surplus = _removable(view, max(len(active) - desired, 0))[:MOST_AT_ONCE]
    if surplus:
        return JobPodPlan(delete=tuple(surplus))
    leaving = sum(map(pod_state.is_terminating, view.pods)) if only_replaces_failed(view.job) else 0
    missing = min(desired - leaving - len(active), MOST_AT_ONCE)
    if missing <= 0:
        return JobPodPlan()
    if not view.per_index and (wait := backoff.remaining_s(view.now)) > 0:
        return JobPodPlan(again_s=wait)
    if not view.indexed:
        return JobPodPlan(make=tuple(range(missing)))
    pending = _pending(view, missing)
    waits = {index: _index_wait_s(view, index) for index in pending}
    due = tuple(index for index in pending if waits[index] <= 0)
    return JobPodPlan(make=due, again_s=None if due or not waits else min(waits.values()))


def _desired_pods(view: JobView, active: int) -> int:
    spec = view.job.spec
    if spec.completions is None:
        return active if view.succeeded > 0 else spec.parallelism
    return max(min(spec.completions - view.succeeded, spec.parallelism), 0)


def _index_wait_s(view: JobView, index: int) -> float:
    pod = view.to_replace.get(index)
    if pod is None:
        return 0.0
    return FailureStreak(all_failures(pod) + 1, finished_at(pod)).remaining_s(view.now)


def _pending(view: JobView, count: int) -> list[int]:
    """The first indexes of which nothing runs, has ended well or has failed for good."""
    busy = [*view.active]
    if only_replaces_failed(view.job):
        busy += [pod for pod in view.pods if pod_state.is_terminating(pod)]
    numbers = (index_of(pod) for pod in busy)
    occupied = view.succeeded_indexes | Indexes.of(number for number in numbers if number is not None)
    if view.failed_indexes is not None:
        occupied |= view.failed_indexes
    free = occupied.lacking(view.completions)
    return [index for index, _ in zip(free, range(count), strict=False)]


def _removable(view: JobView, count: int) -> list[Pod]:
    """At least `count` pods, the least missed first; those with a wrong or taken index go anyway."""
    if not view.indexed:
        return pod_state.in_deletion_order(view.active, ())[:count]
    surplus: list[Pod] = []
    staying: list[Pod] = []
    for pod in reversed(pod_state.in_deletion_order(view.active, ())):
        index = view.valid_index(pod)
        surplus_index = index is None or index in {index_of(earlier) for earlier in staying}
        (surplus if surplus_index else staying).append(pod)
    rest = max(count - len(surplus), 0)
    return [*surplus, *pod_state.in_deletion_order(staying, ())[:rest]]


def next_deadline(job: Job, now: datetime) -> float | None:
    """Seconds until a finished job is to be deleted; None where it stays."""
    ttl = job.spec.ttl_seconds_after_finished
    end = condition(job, "Complete") or condition(job, "Failed")
    if ttl is None or end is None or end.last_transition_time is None:
        return None
    due = moment_of(end.last_transition_time) + timedelta(seconds=ttl)
    return max((due - now).total_seconds(), 0.0)
