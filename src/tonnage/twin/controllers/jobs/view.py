"""What is known of a Job and its pods, and the counts that follow from it.

Source: syncJob in pkg/controller/job of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from tonnage.model.kubernetes.timestamps import moment_of
from tonnage.twin.controllers import pod_state
from tonnage.twin.controllers.jobs.indexes import Indexes
from tonnage.twin.controllers.jobs.pods import (
    all_failures,
    counted_failures,
    finished_at,
    index_of,
    is_failed,
    judged,
    tracked,
)
from tonnage.wire.objects import Pod
from tonnage.wire.workloads import Job, UncountedPods


@dataclass(frozen=True)
class JobFacts:
    """A job, its pods, and the uids of pods that were let go of and still look held."""

    job: Job
    pods: tuple[Pod, ...]
    released: frozenset[str]
    now: datetime

    @cached_property
    def active(self) -> list[Pod]:
        """Pods that run or may come to."""
        return [pod for pod in self.pods if pod_state.is_active(pod)]

    @property
    def indexed(self) -> bool:
        """Whether each completion has a number."""
        return self.job.spec.completion_mode == "Indexed"

    @property
    def per_index(self) -> bool:
        """Whether failures are counted for each index by itself."""
        return self.job.spec.backoff_limit_per_index is not None

    @property
    def completions(self) -> int:
        """How many pods must succeed; 0 where the job leaves that open."""
        return self.job.spec.completions or 0

    @property
    def uncounted(self) -> UncountedPods:
        """What the status holds ready to be counted."""
        return self.job.status.uncounted_terminated_pods or UncountedPods()

    def held(self, pod: Pod) -> bool:
        """Whether the pod has yet to be counted and let go."""
        return tracked(pod) and pod.metadata.uid not in self.released

    def valid_index(self, pod: Pod) -> int | None:
        """The pod's index, where the job has such a one."""
        index = index_of(pod)
        return index if index is not None and index < self.completions else None

    def active_s(self) -> float | None:
        """Seconds since the job was started."""
        start = self.job.status.start_time
        return None if start is None else (self.now - moment_of(start)).total_seconds()


@dataclass(frozen=True)
class JobView(JobFacts):
    """How far the job is."""

    def _new(self, pod: Pod, counted: list[str]) -> bool:
        if not self.held(pod) or pod.metadata.uid in counted:
            return False
        return not self.indexed or self.valid_index(pod) is not None

    @cached_property
    def new_succeeded(self) -> list[Pod]:
        """Pods that succeeded and are in no counter."""
        counted = self.uncounted.succeeded
        return [pod for pod in self.pods if pod.status.phase == "Succeeded" and self._new(pod, counted)]

    @cached_property
    def new_failed(self) -> list[Pod]:
        """Pods that failed and are in no counter."""
        counted = self.uncounted.failed
        return [pod for pod in self.pods if is_failed(pod, self.job) and self._new(pod, counted)]

    @cached_property
    def succeeded(self) -> int:
        """All successes so far."""
        if self.indexed:
            return len(self.succeeded_indexes)
        return self.job.status.succeeded + len(self.new_succeeded) + len(self.uncounted.succeeded)

    @cached_property
    def failed(self) -> int:
        """All failures so far that count."""
        fresh = sum(judged(pod, self.job).counts for pod in self.new_failed)
        return self.job.status.failed + fresh + len(self.uncounted.failed)

    @cached_property
    def known_indexes(self) -> Indexes:
        """Indexes that the status says are done."""
        return Indexes.parsed(self.job.status.completed_indexes, self.completions)

    @cached_property
    def succeeded_indexes(self) -> Indexes:
        """Indexes that are done."""
        done = (
            self.valid_index(pod) for pod in self.pods if pod.status.phase == "Succeeded" and tracked(pod)
        )
        return self.known_indexes | Indexes.of(index for index in done if index is not None)

    @cached_property
    def failed_indexes(self) -> Indexes | None:
        """Indexes that have failed for good; None where they are not counted."""
        if not self.per_index:
            return None
        recorded = Indexes.parsed(self.job.status.failed_indexes or "", self.completions)
        fresh = (self.valid_index(pod) for pod in self.pods if tracked(pod) and self._fails_index(pod))
        return recorded | Indexes.of(index for index in fresh if index is not None)

    def _fails_index(self, pod: Pod) -> bool:
        if not is_failed(pod, self.job):
            return False
        verdict = judged(pod, self.job)
        limit = self.job.spec.backoff_limit_per_index or 0
        return verdict.fails_index or (verdict.counts and counted_failures(pod) >= limit)

    @cached_property
    def to_replace(self) -> dict[int, Pod]:
        """By index: the failed pod that stays until its successor, which inherits its count, is made."""
        busy = {index_of(pod) for pod in self.active}
        replaceable: dict[int, Pod] = {}
        if not self.per_index:
            return replaceable
        for pod in self.pods:
            index = self.valid_index(pod)
            if index is None or index in busy or not self.held(pod) or not is_failed(pod, self.job):
                continue
            if index in self.succeeded_indexes or index in (self.failed_indexes or ()):
                continue
            before = replaceable.get(index)
            if before is None or _rank(before) <= _rank(pod):
                replaceable[index] = pod
        return replaceable


def _rank(pod: Pod) -> tuple[int, datetime]:
    return all_failures(pod), finished_at(pod)
