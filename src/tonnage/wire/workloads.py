"""Jobs, CronJobs and StatefulSets as their controllers read and write them; templates are carried whole.

Source: batch/v1 and apps/v1 of the Kubernetes API, v1.35.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.wire.objects import Condition, LabelSelector, Object, ObjectReference, Wire


class JobSpec(Wire):
    parallelism: int = 1
    completions: int | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    selector: LabelSelector = msgspec.field(default_factory=LabelSelector)
    template: dict[str, Any] = msgspec.field(default_factory=dict)
    ttl_seconds_after_finished: int | None = None
    pod_failure_policy: dict[str, Any] | None = None
    success_policy: dict[str, Any] | None = None
    pod_replacement_policy: str = ""
    managed_by: str = ""


class JobCondition(Condition):
    last_probe_time: str | None = None


class UncountedPods(Wire):
    """Uids of pods that have ended and are not in the counters yet."""

    succeeded: list[str] = msgspec.field(default_factory=list)
    failed: list[str] = msgspec.field(default_factory=list)


class JobStatus(Wire):
    active: int = 0
    ready: int | None = None
    terminating: int | None = None
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedPods | None = None
    start_time: str | None = None
    completion_time: str | None = None
    conditions: list[JobCondition] = msgspec.field(default_factory=list)


class Job(Object):
    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)


class CronJobSpec(Wire):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: dict[str, Any] = msgspec.field(default_factory=dict)
    successful_jobs_history_limit: int | None = 3
    failed_jobs_history_limit: int | None = 1


class CronJobStatus(Wire):
    active: list[ObjectReference] = msgspec.field(default_factory=list)
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Object):
    spec: CronJobSpec = msgspec.field(default_factory=CronJobSpec)
    status: CronJobStatus = msgspec.field(default_factory=CronJobStatus)
