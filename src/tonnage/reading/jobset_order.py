"""Which ReplicatedJob of a JobSet waits for the end of which earlier one, and how far that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.json_access import mappings


@dataclass(frozen=True, slots=True)
class JobCounts:
    """How many Jobs of a ReplicatedJob run, succeeded and failed, as the controller counts."""

    succeeded: int
    active: int
    failed: int


CountsByJob = Mapping[str, JobCounts]
"""By the name of the ReplicatedJob."""

NO_COUNTS: Final[CountsByJob] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class JobWait:
    """That the Jobs of `part` are made once those of `earlier` have ended. `counts`: as far as known."""

    part: str
    earlier: str
    replicas: int
    counts: JobCounts | None

    def __str__(self) -> str:
        part, earlier = self.part[:63], self.earlier[:63]
        if self.counts is None:
            return f"the pods of {part} come once those of {earlier} have ended"
        counts = self.counts
        jobs = f"{counts.succeeded} of {self.replicas} Jobs succeeded, {counts.active} active"
        jobs += f", {counts.failed} failed"
        return f"{part} waits for {earlier} to end: {jobs}"

    @property
    def remedy(self) -> str:
        """What to do, where the controller counts."""
        if self.counts is None:
            return ""
        if self.counts.failed:
            return f"repair {self.earlier[:63]}, of which a Job failed"
        return f"explain it again once {self.earlier[:63]} has ended"


def job_counts(jobset: JsonObject) -> CountsByJob:
    """The counts of each ReplicatedJob in a JobSet's status; none before its controller has counted."""
    return {
        str(job.get("name")): JobCounts(
            _count(job, "succeeded"), _count(job, "active"), _count(job, "failed")
        )
        for job in mappings(jobset, "status", "replicatedJobsStatus")
    }


def job_wait(spec: JsonObject, job: JsonObject, part: str, counts: CountsByJob) -> JobWait | None:
    """For what a ReplicatedJob of a JobSet's spec waits; None: for the end of none, or of none any more."""
    jobs = mappings(spec, "replicatedJobs")
    numbers = {str(earlier.get("name")): earlier.get("replicas", 1) for earlier in jobs}
    for other in mappings(job, "dependsOn"):
        name = str(other.get("name"))
        replicas = numbers.get(name)
        wait = JobWait(part, name, replicas if isinstance(replicas, int) else 1, counts.get(name))
        if other.get("status") == "Complete" and not _ended(wait):
            return wait
    return None


def _ended(wait: JobWait) -> bool:
    return wait.counts is not None and wait.counts.succeeded >= wait.replicas


def _count(counts: JsonObject, key: str) -> int:
    count = counts.get(key)
    return count if isinstance(count, int) and count > 0 else 0
