"""Jobs, CronJobs, StatefulSets and ReplicationControllers as controllers see them; templates stay whole.

Source: batch/v1, apps/v1 and core/v1 of the Kubernetes API, v1.35.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.wire.objects import Condition, LabelSelector, Object, ObjectReference, Wire, WorkloadStatus


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


class StatefulSetSpec(Wire):
    replicas: int = 1
    selector: LabelSelector = msgspec.field(default_factory=LabelSelector)
    template: dict[str, Any] = msgspec.field(default_factory=dict)
    volume_claim_templates: list[dict[str, Any]] = msgspec.field(default_factory=list)
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    update_strategy: dict[str, Any] = msgspec.field(default_factory=dict)
    revision_history_limit: int = 10
    min_ready_seconds: int = 0
    persistent_volume_claim_retention_policy: dict[str, str] | None = None
    ordinals: dict[str, int] | None = None


class StatefulSetStatus(Wire, omit_defaults=False):
    """Written whole: the counts that are always there are so even when they are zero."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    conditions: list[Condition] = msgspec.field(default_factory=list)


class StatefulSet(Object):
    spec: StatefulSetSpec = msgspec.field(default_factory=StatefulSetSpec)
    status: StatefulSetStatus = msgspec.field(default_factory=StatefulSetStatus)


class ReplicationSpec(Wire):
    """Spec of a ReplicationController, whose selector is a map of labels."""

    replicas: int = 1
    selector: dict[str, str] = msgspec.field(default_factory=dict)
    template: dict[str, Any] = msgspec.field(default_factory=dict)
    min_ready_seconds: int = 0


class Replication(Object):
    """A ReplicationController."""

    spec: ReplicationSpec = msgspec.field(default_factory=ReplicationSpec)
    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)
