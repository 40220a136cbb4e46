"""What a Deployment's status should say: counts, and the conditions that `kubectl rollout status` reads.

Source: k8s.io/kubernetes/pkg/controller/deployment (v1.35), reasons and messages included.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tonnage.model.kubernetes.timestamps import moment_of, timestamp
from tonnage.twin.controllers.deployments.replica_sets import Sets, limits_of
from tonnage.wire.objects import Condition, Deployment, WorkloadStatus

_NO_DEADLINE: Final = 2**31 - 1
_AVAILABLE: Final = "NewReplicaSetAvailable"
_TIMED_OUT: Final = "ProgressDeadlineExceeded"


@dataclass(frozen=True, slots=True)
class StatusPlan:
    """The status, and the seconds after which time alone may change it (None: it cannot)."""

    status: WorkloadStatus
    again_s: float | None


def deployment_status(deployment: Deployment, sets: Sets, now: datetime, *, created: str = "") -> StatusPlan:
    """The status that these sets give. `created` names a set that was made in this very step."""
    status = _counts(deployment, sets)
    conditions = _Conditions(deployment.status.conditions, now)
    if created:
        # Told before its pods are counted, and so the first of all conditions until the rollout goes on.
        conditions.set("Progressing", "True", "NewReplicaSetCreated", f'Created new replica set "{created}"')
    rolls = not created and not deployment.spec.paused and deployment.metadata.deletion_timestamp is None
    if rolls:
        _set_found(deployment, sets, conditions)
    _set_availability(deployment, status, conditions)
    _set_pause(deployment, conditions)
    if rolls:
        _set_progress(deployment, sets, status, conditions)
        _set_failure(sets, conditions)
    status.conditions = conditions.all()
    return StatusPlan(status, _again_s(deployment, conditions, now))


class _Conditions:
    """Conditions by type, in their order, with the two time stamps kept as upstream keeps them."""

    def __init__(self, present: list[Condition], now: datetime) -> None:
        self.now = timestamp(now)
        self._by_type = {condition.type: condition for condition in present}

    def get(self, condition_type: str) -> Condition | None:
        return self._by_type.get(condition_type)

    def remove(self, condition_type: str) -> None:
        self._by_type.pop(condition_type, None)

    def set(
        self, condition_type: str, status: str, reason: str, message: str, *, renew: bool = False
    ) -> None:
        """Set a condition; one with the same status and reason stays as it is, unless it is to be renewed."""
        before = self._by_type.get(condition_type)
        same_status = before is not None and before.status == status
        if before is not None and same_status and before.reason == reason and not renew:
            return
        since = before.last_transition_time if before is not None and same_status else self.now
        self._by_type.pop(condition_type, None)
        self._by_type[condition_type] = Condition(
            type=condition_type,
            status=status,
            reason=reason,
            message=message,
            last_update_time=self.now,
            last_transition_time=since,
        )

    def all(self) -> list[Condition]:
        return list(self._by_type.values())


def _counts(deployment: Deployment, sets: Sets) -> WorkloadStatus:
    available = sum(s.status.available_replicas for s in sets.all)
    return WorkloadStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(s.status.replicas for s in sets.all),
        updated_replicas=sets.new.status.replicas if sets.new is not None else 0,
        ready_replicas=sum(s.status.ready_replicas for s in sets.all),
        available_replicas=available,
        unavailable_replicas=max(sum(s.spec.replicas for s in sets.all) - available, 0),
        collision_count=deployment.status.collision_count,
        terminating_replicas=_terminating(sets),
    )


def _terminating(sets: Sets) -> int | None:
    """Pods on their way out, unknown while one of the sets has not said how many it has."""
    counts = [replica_set.status.terminating_replicas for replica_set in sets.all]
    return None if None in counts else sum(count or 0 for count in counts)


def _set_availability(deployment: Deployment, status: WorkloadStatus, conditions: _Conditions) -> None:
    if status.available_replicas >= deployment.spec.replicas - limits_of(deployment).unavailable:
        conditions.set(
            "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."
        )
    else:
        conditions.set(
            "Available",
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )


def _has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds != _NO_DEADLINE


def _set_pause(deployment: Deployment, conditions: _Conditions) -> None:
    progressing = conditions.get("Progressing")
    reason = progressing.reason if progressing is not None else ""
    if not _has_deadline(deployment) or reason == _TIMED_OUT:
        return
    if deployment.spec.paused and reason != "DeploymentPaused":
        conditions.set("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
    elif not deployment.spec.paused and reason == "DeploymentPaused":
        conditions.set("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")


def _set_found(deployment: Deployment, sets: Sets, conditions: _Conditions) -> None:
    if _has_deadline(deployment) and conditions.get("Progressing") is None and sets.new is not None:
        message = f'Found new replica set "{sets.new.metadata.name}"'
        conditions.set("Progressing", "True", "FoundNewReplicaSet", message)


def _set_progress(
    deployment: Deployment, sets: Sets, status: WorkloadStatus, conditions: _Conditions
) -> None:
    current = conditions.get("Progressing")
    if not _has_deadline(deployment):
        return
    if current is not None and current.reason == _AVAILABLE and status.replicas == status.updated_replicas:
        return  # complete since before: a later change of size is no progress of a rollout
    subject = (
        f'ReplicaSet "{sets.new.metadata.name}"' if sets.new else f'Deployment "{deployment.metadata.name}"'
    )
    if _complete(deployment, status):
        message = f"{subject} has successfully progressed."
        conditions.set("Progressing", "True", _AVAILABLE, message)
    elif _progressed(deployment.status, status):
        message = f"{subject} is progressing."
        conditions.set("Progressing", "True", "ReplicaSetUpdated", message, renew=True)
    elif _timed_out(deployment, conditions):
        message = f"{subject} has timed out progressing."
        conditions.set("Progressing", "False", _TIMED_OUT, message)


def _complete(deployment: Deployment, status: WorkloadStatus) -> bool:
    replicas = deployment.spec.replicas
    return status.updated_replicas == status.replicas == status.available_replicas == replicas


def _progressed(before: WorkloadStatus, after: WorkloadStatus) -> bool:
    return (
        after.updated_replicas > before.updated_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def _timed_out(deployment: Deployment, conditions: _Conditions) -> bool:
    current = conditions.get("Progressing")
    if current is None or current.reason == _AVAILABLE:
        return False
    if current.reason == _TIMED_OUT:
        return True
    deadline = _deadline(deployment, current)
    return deadline is not None and deadline < moment_of(conditions.now)


def _deadline(deployment: Deployment, progressing: Condition) -> datetime | None:
    since = progressing.last_update_time or progressing.last_transition_time
    if since is None:
        return None
    return moment_of(since) + timedelta(seconds=deployment.spec.progress_deadline_seconds)


def _set_failure(sets: Sets, conditions: _Conditions) -> None:
    for replica_set in sets.all:
        for condition in replica_set.status.conditions:
            if condition.type == "ReplicaFailure" and condition.status == "True":
                conditions.set("ReplicaFailure", "True", condition.reason, condition.message)
                return
    conditions.remove("ReplicaFailure")


def _again_s(deployment: Deployment, conditions: _Conditions, now: datetime) -> float | None:
    progressing = conditions.get("Progressing")
    if progressing is None or not _has_deadline(deployment) or deployment.spec.paused:
        return None
    if progressing.reason in (_AVAILABLE, _TIMED_OUT):
        return None
    deadline = _deadline(deployment, progressing)
    return None if deadline is None else max((deadline - now).total_seconds(), 0.0) + 1.0
