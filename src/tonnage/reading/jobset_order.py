"""Which ReplicatedJob of a JobSet waits for the end of which earlier one, and how far that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.json_access import mappings

JobCounts = Mapping[str, JsonObject]
"""ReplicatedJob -> how many of its Jobs run, succeeded and failed, as the controller counts."""

NO_COUNTS: Final[JobCounts] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class JobWait:
    """That the Jobs of `part` are made once those of `earlier` have ended. `counts`: as far as known."""

    part: str
    earlier: str
    replicas: int
    counts: JsonObject | None

    def __str__(self) -> str:
        part, earlier = self.part[:63], self.earlier[:63]
        if self.counts is None:
            return f"the pods of {part} come once those of {earlier} have ended"
        succeeded, active, failed = (_count(self.counts, key) for key in ("succeeded", "active", "failed"))
        jobs = f"{succeeded} of {self.replicas} Jobs succeeded, {active} active, {failed} failed"
        return f"{part} waits for {earlier} to end: {jobs}"

    @property
    def remedy(self) -> str:
        """What to do, where the controller counts."""
        if self.counts is None:
            return ""
        if _count(self.counts, "failed"):
            return f"repair {self.earlier[:63]}, of which a Job failed"
        return f"explain it again once {self.earlier[:63]} has ended"


def job_counts(jobset: JsonObject) -> JobCounts:
    """The counts of each ReplicatedJob in the status of a JobSet; none before its controller has counted."""
    return {str(job.get("name")): job for job in mappings(jobset, "status", "replicatedJobsStatus")}


def job_wait(spec: JsonObject, job: JsonObject, part: str, counts: JobCounts) -> JobWait | None:
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
    return wait.counts is not None and _count(wait.counts, "succeeded") >= wait.replicas


def _count(counts: JsonObject, key: str) -> int:
    count = counts.get(key)
    return count if isinstance(count, int) and count > 0 else 0
