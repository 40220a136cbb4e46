"""The status of Jobs: counts, indexes and times that go with the conditions.

Most rules look only at what a writer changes.

Source: pkg/registry/batch/job/strategy.go (getStatusValidationOptions), pkg/apis/batch/validation (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import flag, mapping, mappings, number, text, texts
from tonnage.twin.apiserver.objects.problems import Fault, FieldError, duplicate, invalid, required
from tonnage.twin.apiserver.objects.validation.fields import IMMUTABLE, Found, nonnegative
from tonnage.twin.apiserver.objects.validation.job_indexes import (
    IndexesError,
    number_of_indexes,
    shared_index,
)

_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_UNSET: Final[JsonObject] = {"active": 0, "completedIndexes": ""}
"""Fields that are there when they are not written."""
_CONDITIONS: Final = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended")


class _Change:
    """A status, what it was, and which of its parts differ."""

    def __init__(self, new: JsonObject, old: JsonObject) -> None:
        self.spec, self.status, self.before = (
            mapping(new, "spec"),
            mapping(new, "status"),
            mapping(old, "status"),
        )
        self.true, self.was_true = _holding(self.status, "True"), _holding(self.before, "True")
        self.finished = bool(self.true & {"Complete", "Failed"})
        self.was_finished = bool(self.was_true & {"Complete", "Failed"})
        self.resumes = "Suspended" in self.was_true & _holding(self.status, "False")
        self.indexed = text(self.spec, "completionMode") == "Indexed"

    def of(self, *keys: str) -> bool:
        """Whether one of these fields, conditions, or the end of the job changes."""
        return any(map(self._differs, keys))

    def _differs(self, key: str) -> bool:
        if key == "finished":
            return self.finished != self.was_finished
        if key in _CONDITIONS:
            return (key in self.true) != (key in self.was_true)
        unset = _UNSET.get(key)
        return self.status.get(key, unset) != self.before.get(key, unset)


def _holding(status: JsonObject, state: str) -> set[str]:
    return {text(one, "type") for one in mappings(status, "conditions") if text(one, "status") == state}


def _refused(words: str) -> FieldError:
    return FieldError(Fault.INVALID, "status.conditions", None, words, bare=True)


def job_status(new: JsonObject, old: JsonObject) -> Found:
    """A changed status of a Job."""
    change = _Change(new, old)
    for key in _COUNTS:
        yield from nonnegative(change.status, key, "status")
    yield from _uncounted(change)
    yield from _ends(change)
    yield from _finished(change)
    yield from _indexes(change)
    yield from _counts(change)
    yield from _criteria(change)
    yield from _kept(change)


def _uncounted(change: _Change) -> Found:
    seen: set[str] = set()
    for key in ("succeeded", "failed"):
        for index, uid in enumerate(texts(change.status, "uncountedTerminatedPods", key)):
            where = f"status.uncountedTerminatedPods.{key}[{index}]"
            if not uid:
                yield invalid(where, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(where, uid)
            seen.add(uid)


def _ends(change: _Change) -> Found:
    """Conditions that exclude or demand each other, and the time of completion."""
    complete, failed = "Complete" in change.true, "Failed" in change.true
    if change.of("Complete", "Failed") and complete and failed:
        yield _refused("cannot set Complete=True and Failed=true conditions")
    if change.of("Complete", "FailureTarget") and complete and "FailureTarget" in change.true:
        yield _refused("cannot set Complete=True and FailureTarget=true conditions")
    path, ended, started = (
        "status.completionTime",
        text(change.status, "completionTime"),
        text(change.status, "startTime"),
    )
    if change.of("Complete", "completionTime"):
        if ended and not complete:
            yield invalid(path, ended, "cannot set completionTime when there is no Complete=True condition")
        if complete and not ended:
            yield required(path, "completionTime is required for Complete jobs")
    if change.of("startTime", "completionTime") and started and ended and ended < started:
        yield invalid(path, ended, "must be equal to or after `startTime`")
    if change.of("Failed", "failedIndexes") and failed and "FailureTarget" not in change.true:
        yield _refused("cannot set Failed=True condition without the FailureTarget=true condition")
    if change.of("Complete", "SuccessCriteriaMet") and complete and "SuccessCriteriaMet" not in change.true:
        yield _refused("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")


def _finished(change: _Change) -> Found:
    """What a job that has ended has no more, and must have had."""
    if not change.finished:
        return
    status = change.status
    if change.of("finished", "active") and (active := number(status, "active")) > 0:
        yield invalid("status.active", active, "active>0 is invalid for finished job")
    empty = flag(change.spec, "suspend") and change.spec.get("completions") == 0
    if change.of("finished", "startTime") and not empty and not text(status, "startTime"):
        yield required("status.startTime", "startTime is required for finished job")
    left = mapping(status, "uncountedTerminatedPods")
    if change.of("finished", "uncountedTerminatedPods") and (left.get("succeeded") or left.get("failed")):
        shown: JsonObject = {"Succeeded": left.get("succeeded"), "Failed": left.get("failed")}
        yield invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job")


def _indexes(change: _Change) -> Found:
    completed, failed = text(change.status, "completedIndexes"), change.status.get("failedIndexes")
    bounded, completions = change.spec.get("completions") is not None, number(change.spec, "completions")
    by_index = change.spec.get("backoffLimitPerIndex") is not None
    if change.of("completedIndexes") and bounded:
        yield from _readable("completedIndexes", completed, completions)
    if change.of("failedIndexes") and bounded and by_index and isinstance(failed, str):
        yield from _readable("failedIndexes", failed, completions)
    if change.of("completedIndexes") and completed and not change.indexed:
        words = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid("status.completedIndexes", completed, words)
    if not isinstance(failed, str):
        return
    if change.of("failedIndexes") and not by_index:
        words = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid("status.failedIndexes", failed, words)
    if change.of("failedIndexes", "completedIndexes") and bounded:
        common = shared_index(completed, failed, completions)
        if common is not None:
            words = f"failedIndexes and completedIndexes overlap at index: {common}"
            yield invalid("status.failedIndexes", failed, words)


def _readable(key: str, indexes: str, completions: int) -> Found:
    try:
        number_of_indexes(indexes, completions)
    except IndexesError as error:
        yield invalid(f"status.{key}", indexes, f"error parsing {key}: {error}")


def _counts(change: _Change) -> Found:
    terminating, ready = number(change.status, "terminating"), change.status.get("ready")
    if change.of("finished", "terminating") and terminating > 0 and change.finished:
        yield invalid("status.terminating", terminating, "terminating>0 is invalid for finished job")
    more = isinstance(ready, int) and ready > number(change.status, "active")
    if change.of("ready", "active") and more:
        yield invalid("status.ready", ready, "cannot set more ready pods than active")


def _criteria(change: _Change) -> Found:
    met = "SuccessCriteriaMet" in change.true
    for other, said in (("Failed", "Failed=true"), ("FailureTarget", "FailureTarget=true")):
        if met and other in change.true:
            yield _refused(f"cannot set SuccessCriteriaMet=True and {said} conditions")
    if change.spec.get("successPolicy") is not None and not met and "Complete" in change.true:
        words = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        yield _refused(words)


def _kept(change: _Change) -> Found:
    """What does not go back."""
    for kind in ("Failed", "Complete", "FailureTarget"):
        if kind in change.was_true - change.true:
            yield _refused(f"cannot disable the terminal {kind}=True condition")
    scales = change.indexed and change.spec.get("completions") == change.spec.get("parallelism")
    for key in ("failed",) if scales else ("failed", "succeeded"):
        if (now := number(change.status, key)) < number(change.before, key):
            yield invalid(f"status.{key}", now, f"cannot decrease the {key} counter")
    ended, was = change.status.get("completionTime"), change.before.get("completionTime")
    if ended is not None and was is not None and ended != was:
        yield invalid("status.completionTime", ended, IMMUTABLE)
    stays = change.before.get("startTime") is not None and not change.resumes
    if stays and change.of("startTime") and not flag(change.spec, "suspend"):
        yield required("status.startTime", "startTime cannot be removed for unsuspended job")
    if "SuccessCriteriaMet" in change.was_true - change.true:
        yield _refused("cannot disable the SuccessCriteriaMet=True condition")
    if "Complete" in change.was_true and "SuccessCriteriaMet" in change.true - change.was_true:
        yield _refused("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
