"""The pods of a Job, as its template and their index make them.

Source: pkg/controller/job of k8s.io/kubernetes (v1.35): manageJob, indexed_job_utils.
"""

from __future__ import annotations

from typing import Any, Final

from tonnage.loop.ownership import controller_reference
from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.controllers.jobs.pods import (
    FAILURES,
    FINALIZER,
    IGNORED,
    INDEX,
    counted_failures,
    ignored_failures,
    judged,
)
from tonnage.twin.controllers.pod_templates import pod_from
from tonnage.wire.kinds import JOB
from tonnage.wire.objects import Pod
from tonnage.wire.workloads import Job

_LONGEST_PREFIX: Final = 58
_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"


def job_pod(job: Job, index: int | None, before: Pod | None) -> JsonObject:
    """The body of a pod; `before` is the failed one that it replaces, where failures count by index."""
    template: dict[str, Any] = job.spec.template
    metadata = dict(template.get("metadata") or {})
    held = [finalizer for finalizer in metadata.get("finalizers") or [] if finalizer != FINALIZER]
    metadata["finalizers"] = [*held, FINALIZER]
    spec = dict(template.get("spec") or {})
    prefix = f"{job.metadata.name}-"
    if index is not None:
        suffix = f"-{index}-"
        prefix = job.metadata.name[: _LONGEST_PREFIX - len(suffix)] + suffix
        marks = {INDEX: str(index)}
        metadata["labels"] = {**(metadata.get("labels") or {}), **marks}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **marks, **_history(job, before)}
        spec["hostname"] = f"{job.metadata.name}-{index}"
        for key in ("initContainers", "containers"):
            if key in spec:
                spec[key] = [_with_index_variable(container) for container in spec[key]]
    whole: JsonObject = {**template, "metadata": metadata, "spec": spec}
    return pod_from(whole, prefix, controller_reference(job, JOB))


def _history(job: Job, before: Pod | None) -> dict[str, str]:
    """What a pod knows of the failures of its index before it."""
    if job.spec.backoff_limit_per_index is None:
        return {}
    failures, ignored = (0, 0) if before is None else (counted_failures(before), ignored_failures(before))
    if before is not None:
        counts = judged(before, job).counts
        failures, ignored = failures + counts, ignored + (not counts)
    return {FAILURES: str(failures), **({IGNORED: str(ignored)} if ignored else {})}


def _with_index_variable(container: dict[str, Any]) -> dict[str, JsonValue]:
    variables = container.get("env") or []
    if any(variable.get("name") == _INDEX_VARIABLE for variable in variables):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*variables, {"name": _INDEX_VARIABLE, "valueFrom": source}]}
