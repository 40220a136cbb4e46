"""Workloads as model values, and their pod templates as manifests once somebody asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.workloads import (
    PROGRESS_DEADLINE_S,
    ClusterEvent,
    QueuedWorkload,
    Stated,
    WorkloadKey,
    WorkloadState,
)
from tonnage.model.whole_numbers import whole_number
from tonnage.reading.object_parts import moment
from tonnage.wire import objects as w
from tonnage.wire import policies as p
from tonnage.wire.reports import Event

KIND_OF: Final[Mapping[type[p.PodMaker], str]] = {
    p.DeploymentRead: "Deployment",
    p.ReplicaSetRead: "ReplicaSet",
    p.StatefulSetRead: "StatefulSet",
    p.DaemonSetRead: "DaemonSet",
    p.JobRead: "Job",
    p.CronJobRead: "CronJob",
}
REVISION: Final = "deployment.kubernetes.io/revision"
_ENDED: Final = ("Complete", "Failed")


def maker_from(obj: p.PodMaker, kind: str) -> WorkloadState:
    """A workload; its template stays as it is."""
    meta, spec, status = obj.metadata, obj.spec, obj.status
    namespace = meta.namespace or "default"
    owner = next((o for o in meta.owner_references if o.controller), None)
    observed, progress_s = status.get("observedGeneration"), _number(spec, "progressDeadlineSeconds")
    conditions = tuple(_stated(c) for c in status.get("conditions") or () if isinstance(c, dict))
    ended = any(c.type in _ENDED and c.status == "True" for c in conditions)
    return WorkloadState(
        WorkloadKey(kind, namespace, meta.name),
        meta.uid,
        WorkloadKey(owner.kind, namespace, owner.name) if owner else None,
        0 if ended and kind == "Job" else _desired_pods(kind, spec, status),
        bool(spec.get("paused") or spec.get("suspend")),
        kind == "StatefulSet" and spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady",
        whole_number(meta.annotations.get(REVISION, "")) or 0,
        moment(meta.creation_timestamp),
        moment(started) if isinstance(started := status.get("startTime"), str) else None,
        not isinstance(observed, int) or observed >= meta.generation,
        conditions,
        _number(status, "succeeded") or 0,
        _number(spec, "activeDeadlineSeconds"),
        PROGRESS_DEADLINE_S if progress_s is None else progress_s,
        msgspec.json.encode(_template(kind, spec)),
    )


def with_job_ends(pods: Sequence[Pod], workloads: Iterable[WorkloadState]) -> tuple[Pod, ...]:
    """The pods, each with when its Job must have ended, where the Job has a deadline."""
    ends: dict[tuple[str, str], datetime] = {}
    for job in workloads:
        if job.key.kind == "Job" and job.started is not None and job.active_deadline_s is not None:
            with suppress(OverflowError):
                seconds = timedelta(seconds=job.active_deadline_s)
                ends[job.key.namespace, job.key.name] = job.started + seconds
    if not ends:
        return tuple(pods)

    def of(pod: Pod) -> datetime | None:
        owner = pod.owner
        return ends.get((pod.namespace, owner.name)) if owner is not None and owner.kind == "Job" else None

    return tuple(replace(pod, job_ends=end) if (end := of(pod)) else pod for pod in pods)


def _template(kind: str, spec: Mapping[str, Any]) -> object:
    if kind == "CronJob":
        job = spec.get("jobTemplate")
        inner = job.get("spec") if isinstance(job, dict) else None
        return inner.get("template") if isinstance(inner, dict) else None
    return spec.get("template")


def _desired_pods(kind: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> int | None:
    """How many pods it should have that have not ended."""
    match kind:
        case "CronJob":
            return None
        case "DaemonSet":
            return _number(status, "desiredNumberScheduled")
        case "Job":
            at_once, whole = _number(spec, "parallelism"), _number(spec, "completions")
            if at_once is not None and whole is None:
                return at_once  # a queue of work: as many as at once, until one succeeds
            left = (1 if whole is None else whole) - (_number(status, "succeeded") or 0)
            return max(0, min(1 if at_once is None else at_once, left))
        case _:
            replicas = spec.get("replicas", 1)
            return replicas if isinstance(replicas, int) else 1


def _stated(condition: Mapping[str, Any]) -> Stated:
    texts = (str(condition.get(name) or "") for name in ("type", "status", "reason", "message"))
    return Stated(*texts)


def _number(part: Mapping[str, Any], name: str) -> int | None:
    value = part.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def queued_from(obj: w.KueueWorkload) -> QueuedWorkload:
    """A Workload of Kueue: in its last words, why its queue has no quota for it."""
    meta, conditions = obj.metadata, obj.status.get("conditions")
    stated = [_stated(c) for c in conditions if isinstance(c, dict)] if isinstance(conditions, list) else []
    open_ = next((c for c in stated if c.type == "QuotaReserved" and c.status != "True"), None)
    reserved = any(c.type == "QuotaReserved" and c.status == "True" for c in stated)
    waits = "" if reserved else (open_.message if open_ else "") or "its queue has not considered it yet"
    return QueuedWorkload(
        meta.namespace or "default",
        meta.name,
        str(obj.spec.get("queueName") or ""),
        frozenset((owner.kind, owner.name) for owner in meta.owner_references),
        waits,
    )


def event_from(event: Event) -> ClusterEvent:
    """An Event, as far as it says what happened to which object."""
    about = event.involved_object
    namespace = about.namespace or event.metadata.namespace or "default"
    return ClusterEvent(
        WorkloadKey(about.kind, namespace, about.name),
        event.reason,
        event.message,
        moment(event.last_timestamp or event.event_time),
    )
