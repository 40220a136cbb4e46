"""What a Job's controller asks about one pod: its index, whether it failed, when, what a policy says of it.

Source: pkg/controller/job of k8s.io/kubernetes (v1.35): pod_failure_policy, backoff_utils, indexed_job_utils.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from tonnage.model.kubernetes.timestamps import moment_of
from tonnage.model.whole_numbers import whole_number
from tonnage.wire.objects import Pod
from tonnage.wire.workloads import Job

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_INT32: Final = 2**31 - 1


def tracked(pod: Pod) -> bool:
    """Whether the pod is held until it is counted."""
    return FINALIZER in pod.metadata.finalizers


def index_of(pod: Pod) -> int | None:
    """The pod's completion index."""
    text = pod.metadata.annotations.get(INDEX, "")
    return whole_number(text)


def counted_failures(pod: Pod) -> int:
    """Failures of the pod's index before it that count."""
    return _number(pod, FAILURES)


def all_failures(pod: Pod) -> int:
    """Failures of the pod's index before it, those that a policy ignores included."""
    return _number(pod, FAILURES) + _number(pod, IGNORED)


def ignored_failures(pod: Pod) -> int:
    """Failures of the pod's index before it that a policy ignores."""
    return _number(pod, IGNORED)


def _number(pod: Pod, key: str) -> int:
    text = pod.metadata.annotations.get(key, "")
    number = whole_number(text) or 0
    return number if number <= _INT32 else 0


def only_replaces_failed(job: Job) -> bool:
    """Whether a pod on its way out is replaced only once it has ended."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def is_failed(pod: Pod, job: Job) -> bool:
    """Whether the pod counts as failed: one that is deleted may never come to say so."""
    if pod.status.phase == "Failed":
        return True
    gone = pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"
    return gone and not only_replaces_failed(job)


@dataclass(frozen=True, slots=True)
class Judged:
    """What the failure policy makes of a failed pod; `fails_job` is the message with which the job fails."""

    counts: bool = True
    fails_index: bool = False
    fails_job: str = ""


def judged(pod: Pod, job: Job) -> Judged:
    """The first rule of the failure policy that matches decides."""
    policy = job.spec.pod_failure_policy or {}
    for place, rule in enumerate(policy.get("rules") or []):
        why = _match(pod, rule)
        if not why:
            continue
        match rule.get("action"):
            case "Ignore":
                return Judged(counts=False)
            case "FailIndex":
                return Judged(fails_index=True)
            case "Count":
                return Judged()
            case "FailJob":
                return Judged(fails_job=f"{why} matching FailJob rule at index {place}")
            case _:
                continue
    return Judged()


def _match(pod: Pod, rule: dict[str, Any]) -> str:
    """What of the pod a rule is about, empty when it is not about the pod."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    codes = rule.get("onExitCodes")
    if codes is not None:
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            ended = (status.get("state") or {}).get("terminated")
            code = (ended or {}).get("exitCode", 0)
            named = codes.get("containerName") in (None, status.get("name"))
            if code and named and (code in codes.get("values", [])) == (codes.get("operator") == "In"):
                return f"Container {status.get('name')} for pod {name} failed with exit code {code}"
        return ""
    for condition in pod.status.conditions:
        for pattern in rule.get("onPodConditions") or []:
            if (condition.type, condition.status) == (pattern.get("type"), pattern.get("status")):
                return f"Pod {name} has condition {condition.type}"
    return ""


def finished_at(pod: Pod) -> datetime:
    """When the pod ended, as well as can be told."""
    always = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
    statuses = [
        *pod.status.container_statuses,
        *(status for status in pod.status.init_container_statuses if status.get("name") in always),
    ]
    ends = [
        str(((status.get("state") or {}).get("terminated") or {}).get("finishedAt") or "")
        for status in statuses
    ]
    if ends and all(ends):
        return max(map(moment_of, ends))
    for condition in pod.status.conditions:
        if (condition.type, condition.status) == ("Ready", "False") and condition.last_transition_time:
            return moment_of(condition.last_transition_time)
    metadata = pod.metadata
    if metadata.deletion_timestamp is not None:
        grace = timedelta(seconds=metadata.deletion_grace_period_seconds or 0)
        return moment_of(metadata.deletion_timestamp) - grace
    return moment_of(metadata.creation_timestamp or "1970-01-01T00:00:00Z")


def restarts(pod: Pod) -> int:
    """How often the containers of a living pod have been restarted."""
    if pod.status.phase not in ("Running", "Pending"):
        return 0
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return sum(int(status.get("restartCount", 0)) for status in statuses)


@dataclass(frozen=True, slots=True)
class FailureStreak:
    """Failures in a row, and when the last one was."""

    failures: int = 0
    last: datetime | None = None

    def after(self, succeeded: list[Pod], failed: list[Pod]) -> FailureStreak:
        """The record once these pods have ended."""
        times = sorted(finished_at(pod) for pod in failed)
        if not succeeded:
            return FailureStreak(self.failures + len(times), times[-1]) if times else self
        good = max(finished_at(pod) for pod in succeeded)
        later = [time for time in times if time > good]
        return FailureStreak(len(later), later[-1]) if later else FailureStreak()

    def remaining_s(self, now: datetime) -> float:
        """Seconds until the next pod may be made: ten after the first failure, then twice as long each."""
        if not self.failures or self.last is None:
            return 0.0
        pause = min(10.0 * 2.0 ** min(self.failures - 1, 10), 600.0)
        return max(pause - (now - self.last).total_seconds(), 0.0)
