"""Objects that make pods, and what happened to them. Their templates stay text until somebody asks.

Source: the Kubernetes API: apps v1, batch v1, core v1 Event.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

PROGRESS_DEADLINE_S: Final = 600
"""What Kubernetes fills in."""


class WorkloadKey(NamedTuple):
    """A workload's identity."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Stated:
    """A condition of a workload's status."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or CronJob.

    `owner` is its controller. `desired` is how many pods it should have now, None where its status has to
    say (a DaemonSet) or nothing does (a CronJob). `template` is the JSON of the pod template.
    """

    key: WorkloadKey
    uid: str = ""
    owner: WorkloadKey | None = None
    desired: int | None = None
    paused: bool = False
    """A Deployment's `spec.paused`, or `spec.suspend` of a Job or CronJob."""
    in_order: bool = False
    """A StatefulSet that starts one pod after the other."""
    revision: int = 0
    created: datetime | None = None
    started: datetime | None = None
    """A Job's `status.startTime`."""
    observed: bool = True
    """Its controller has looked at it as it is now."""
    conditions: tuple[Stated, ...] = ()
    succeeded: int = 0
    """A Job's pods that have ended well."""
    active_deadline_s: int | None = None
    """A Job's `spec.activeDeadlineSeconds`."""
    progress_deadline_s: int = PROGRESS_DEADLINE_S
    """A Deployment's `spec.progressDeadlineSeconds`."""
    template: bytes = b""

    def condition(self, kind: str, status: str = "True") -> Stated | None:
        """The condition of a type, when it has that status."""
        return next((c for c in self.conditions if (c.type, c.status) == (kind, status)), None)


@dataclass(frozen=True, slots=True)
class QueuedWorkload:
    """A Workload of Kueue, and what its queue says: why it has no quota, empty once it has."""

    namespace: str
    name: str
    queue: str = ""
    owners: frozenset[tuple[str, str]] = frozenset()
    """Kind and name of what it stands for."""
    waits: str = ""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An Event about an object: quoted beside what the objects themselves tell, and nothing more."""

    about: WorkloadKey
    reason: str
    message: str
    last: datetime | None = None
