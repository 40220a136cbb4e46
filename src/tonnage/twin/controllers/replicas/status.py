"""What the status of a ReplicaSet or ReplicationController should say, and the patch for that."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.twin.controllers.pod_state import available_in_s, is_ready
from tonnage.wire.objects import Condition, Pod, ReplicaSet, WorkloadStatus
from tonnage.wire.workloads import Replication


def replica_set_status(
    owner: ReplicaSet | Replication, active: list[Pod], now: datetime, failure: str, *, terminating: int = 0
) -> tuple[WorkloadStatus, float | None]:
    """The status, and the seconds until a pod becomes available by time alone (None: none will).

    `terminating` counts the pods on their way out, which are not among the active ones; a
    ReplicationController does not tell them.
    `failure` is what the server said when a pod could not be made or deleted, empty when all went well.
    """
    template = owner.spec.template.get("metadata") or {}
    labels: dict[str, str] = template.get("labels") or {}
    waits = [available_in_s(pod, owner.spec.min_ready_seconds, now) for pod in active]
    coming = [wait for wait in waits if wait]
    status = WorkloadStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(labels.items() <= pod.metadata.labels.items() for pod in active),
        ready_replicas=sum(is_ready(pod) for pod in active),
        available_replicas=sum(wait == 0 for wait in waits),
        terminating_replicas=terminating if isinstance(owner, ReplicaSet) else None,
        observed_generation=owner.metadata.generation,
        conditions=[c for c in owner.status.conditions if c.type != "ReplicaFailure"],
    )
    if failure:
        reason = "FailedCreate" if owner.spec.replicas > len(active) else "FailedDelete"
        status.conditions.append(_replica_failure(owner, reason, failure, now))
    return status, min(coming) if coming else None


def _replica_failure(owner: ReplicaSet | Replication, reason: str, message: str, now: datetime) -> Condition:
    # One that stands stays as it is: refusals that name the pod differ each time, and writing each of them
    # would wake the controller at once, again and again.
    for condition in owner.status.conditions:
        if condition.type == "ReplicaFailure" and condition.status == "True":
            return condition
    return Condition(
        type="ReplicaFailure",
        status="True",
        reason=reason,
        message=message,
        last_transition_time=timestamp(now),
    )


def status_patch(before: WorkloadStatus, after: WorkloadStatus) -> JsonObject | None:
    """A merge patch of the status, None when nothing differs. What became zero or empty is removed.

    `replicas` and DaemonSets' required counts are always written: upstream never leaves them out.
    """
    if before == after:
        return None
    old: JsonObject = msgspec.to_builtins(before)
    new: JsonObject = msgspec.to_builtins(after)
    patch: JsonObject = {key: None for key in old if key not in new}
    patch.update({key: value for key, value in new.items() if value != old.get(key)})
    for key in _REQUIRED & patch.keys():
        patch[key] = patch[key] or 0
    return patch


_REQUIRED = frozenset(
    {
        "replicas",
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
    }
)
