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
_DEADLINE: Final = "activeDeadlineSeconds"
_ENDED: Final = ("Complete", "Failed")
_SPEC_NUMBERS: Final = ("parallelism", "completions", "backoffLimit", "progressDeadlineSeconds", _DEADLINE)
_STATUS_NUMBERS: Final = (
    "replicas",
    "readyReplicas",
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "active",
    "succeeded",
    "failed",
)


def maker_from(obj: p.PodMaker, kind: str) -> WorkloadState:
    """A workload; its template stays as it is."""
    meta, spec, status = obj.metadata, obj.spec, obj.status
    namespace = meta.namespace or "default"
    owner = next((o for o in meta.owner_references if o.controller), None)
    numbers = {name: spec[name] for name in _SPEC_NUMBERS if _is_number(spec.get(name))}
    numbers |= {name: status[name] for name in _STATUS_NUMBERS if _is_number(status.get(name))}
    observed = status.get("observedGeneration")
    conditions = tuple(_stated(c) for c in status.get("conditions") or () if isinstance(c, dict))
    ended = any(c.type in _ENDED and c.status == "True" for c in conditions)
    return WorkloadState(
        WorkloadKey(kind, namespace, meta.name),
        meta.uid,
        WorkloadKey(owner.kind, namespace, owner.name) if owner else None,
        0 if ended and kind == "Job" else _desired_pods(kind, spec, numbers),
        bool(spec.get("paused") or spec.get("suspend")),
        kind == "StatefulSet" and spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady",
        whole_number(meta.annotations.get(REVISION, "")) or 0,
        moment(meta.creation_timestamp),
        moment(started) if isinstance(started := status.get("startTime"), str) else None,
        not isinstance(observed, int) or observed >= meta.generation,
        conditions,
        numbers,
        msgspec.json.encode(_template(kind, spec)),
    )


def with_job_ends(pods: Sequence[Pod], workloads: Iterable[WorkloadState]) -> tuple[Pod, ...]:
    """The pods, each with when its Job must have ended, where the Job has a deadline."""
    ends: dict[tuple[str, str], datetime] = {}
    for job in workloads:
        if job.key.kind == "Job" and job.started is not None and _DEADLINE in job.numbers:
            with suppress(OverflowError):
                seconds = timedelta(seconds=job.numbers[_DEADLINE])
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


def _desired_pods(kind: str, spec: Mapping[str, Any], numbers: Mapping[str, int]) -> int | None:
    """How many pods it should have that have not ended."""
    match kind:
        case "CronJob":
            return None
        case "DaemonSet":
            return numbers.get("desiredNumberScheduled")
        case "Job":
            at_once = numbers.get("parallelism", 1)
            whole = numbers.get("completions", None if "parallelism" in numbers else 1)
            return at_once if whole is None else max(0, min(at_once, whole - numbers.get("succeeded", 0)))
        case _:
            replicas = spec.get("replicas", 1)
            return replicas if isinstance(replicas, int) else 1


def _stated(condition: Mapping[str, Any]) -> Stated:
    texts = (str(condition.get(name) or "") for name in ("type", "status", "reason", "message"))
    return Stated(*texts)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


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
