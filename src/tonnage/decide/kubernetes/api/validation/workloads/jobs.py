"""Jobs and CronJobs.

Source: pkg/apis/batch/validation of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.go_values import template_in_go
from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.decide.kubernetes.api.problems import invalid, required, too_long, unsupported
from tonnage.decide.kubernetes.api.validation.fields import (
    IMMUTABLE,
    MISMATCH,
    FieldErrors,
    domain_prefixed,
    is_readable,
    label_selector,
    nonnegative,
    selects,
    unchanged,
)
from tonnage.decide.kubernetes.api.validation.pods.pod import pod_template
from tonnage.decide.kubernetes.api.validation.workloads.cron_schedules import schedule_problem
from tonnage.decide.kubernetes.api.validation.workloads.job_policies import (
    failure_policy,
    policy_in_go,
    success_policy,
)
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, flag, mapping, number, text
from tonnage.wire.schema import load_time_zones

_REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")
_MANY: Final = 100_000
_FEWER: Final = 10_000
_LONGEST_MANAGER: Final = 63
_LONGEST_CRON_NAME: Final = 52
_FIXED: Final = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)


def job(obj: JsonObject) -> FieldErrors:
    """A Job; the server has generated the selector already."""
    spec = mapping(obj, "spec")
    yield from _generated_selector(obj)
    yield from _selecting_spec(spec)
    completions = number(spec, "completions")
    if text(spec, "completionMode") == "Indexed" and completions > 0:
        name = text(obj, "metadata", "name")
        host = f"{name}-{completions - 1}"
        if names.dns_label(host):
            words = f"will not able to create pod with invalid DNS label: {host}"
            yield invalid("metadata.name", name, words)


def _selecting_spec(spec: JsonObject) -> FieldErrors:
    """The spec of a job with its selector."""
    yield from job_spec(spec, "spec")
    selector, template = mapping(spec, "selector"), mapping(spec, "template")
    if spec.get("selector") is None:
        yield required("spec.selector")
    else:
        yield from label_selector(selector, "spec.selector")
    # No selector selects nothing.
    if spec.get("selector") is None or (is_readable(selector) and not selects(selector, template)):
        yield invalid("spec.template.metadata.labels", at(template, "metadata", "labels"), MISMATCH)


def _generated_selector(obj: JsonObject) -> FieldErrors:
    """The labels by which a job finds its pods, which nobody may have set otherwise."""
    spec = mapping(obj, "spec")
    if flag(spec, "manualSelector") or spec.get("selector") is None:
        return
    uid, name = text(obj, "metadata", "uid"), text(obj, "metadata", "name")
    expected = {
        "controller-uid": uid,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
    }
    labels = mapping(spec, "template", "metadata", "labels")
    for key, value in expected.items():
        path = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            yield required(path, f"must be '{value}'")
        elif labels[key] != value:
            yield invalid(path, dict(sorted(labels.items())), f"must be '{value}'")
    selector = mapping(spec, "selector")
    if is_readable(selector) and not selects(selector, {"metadata": {"labels": {**expected}}}):
        yield invalid("spec.selector", selector, "`selector` not auto-generated")


def job_spec(spec: JsonObject, path: str) -> FieldErrors:
    """The spec of a job, alone or in a CronJob's template."""
    for key in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ):
        yield from nonnegative(spec, key, path)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec.get("managedBy") is not None:
        yield from _manager(text(spec, "managedBy"), f"{path}.managedBy")
    yield from _job_indices(spec, path)
    yield from failure_policy(spec, f"{path}.podFailurePolicy")
    yield from success_policy(spec, f"{path}.successPolicy")
    yield from _replacement(spec, f"{path}.podReplacementPolicy")
    yield from pod_template(mapping(spec, "template"), f"{path}.template")
    yield from _restarts(spec, f"{path}.template.spec.restartPolicy")


def _manager(manager: str, path: str) -> FieldErrors:
    yield from domain_prefixed(manager, path)
    if len(manager.encode()) > _LONGEST_MANAGER:
        yield too_long(path, _LONGEST_MANAGER)


def _replacement(spec: JsonObject, path: str) -> FieldErrors:
    policy = text(spec, "podReplacementPolicy")
    allowed = _REPLACEMENTS if spec.get("podFailurePolicy") is None else ("Failed",)
    if policy and policy not in allowed:
        yield unsupported(path, policy, allowed)


def _restarts(spec: JsonObject, path: str) -> FieldErrors:
    policy = text(spec, "template", "spec", "restartPolicy")
    if policy in ("", "Always"):
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield unsupported(path, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        yield invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _job_indices(spec: JsonObject, path: str) -> FieldErrors:
    mode = text(spec, "completionMode")
    if mode and mode not in ("NonIndexed", "Indexed"):
        yield unsupported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        yield from _indexed(spec, path)
    elif mode in ("", "NonIndexed"):
        for key in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(key) is not None:
                yield invalid(f"{path}.{key}", number(spec, key), "requires indexed completion mode")


def _indexed(spec: JsonObject, path: str) -> FieldErrors:
    completions, most = spec.get("completions"), spec.get("maxFailedIndexes")
    parallelism = number(spec, "parallelism")
    if completions is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    if parallelism > _MANY:
        words = f"must be less than or equal to {_MANY} when completion mode is Indexed"
        yield invalid(f"{path}.parallelism", parallelism, words)
    if most is not None:
        failed = number(spec, "maxFailedIndexes")
        if completions is not None and failed > number(spec, "completions"):
            yield invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
        if failed > _MANY:
            yield invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MANY}")
    if number(spec, "completions") > _MANY and spec.get("backoffLimitPerIndex") is not None:
        if most is None:
            words = f"must be specified when completions is above {_MANY}"
            yield required(f"{path}.maxFailedIndexes", words)
        words = f"must be less than or equal to {_FEWER} when completions are above {_MANY} "
        words += "and used with backoff limit per index"
        for key in ("parallelism", "maxFailedIndexes"):
            if number(spec, key) > _FEWER:
                yield invalid(f"{path}.{key}", number(spec, key), words)


def job_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed Job: its pods and its way of counting stay. Faults of its spec are told twice."""
    yield from job(new)
    spec, before = mapping(new, "spec"), mapping(old, "spec")
    yield from _selecting_spec(spec)
    yield from _completions_kept(spec, before)
    yield from unchanged(spec.get("selector"), before.get("selector"), "spec.selector")
    template = mapping(before, "template")
    if flag(before, "suspend") and mapping(old, "status").get("startTime") is None:
        template = _with_directives(mapping(spec, "template"), template)
    for _ in unchanged(spec.get("template"), template, "spec.template"):
        yield invalid("spec.template", template_in_go(mapping(spec, "template")), IMMUTABLE)
    for key in _FIXED:
        if not same_json(spec.get(key), before.get(key)):
            yield invalid(f"spec.{key}", policy_in_go(spec.get(key)), IMMUTABLE)


def _completions_kept(spec: JsonObject, before: JsonObject) -> FieldErrors:
    if text(spec, "completionMode") != "Indexed":
        yield from unchanged(spec.get("completions"), before.get("completions"), "spec.completions")
        return
    now = spec.get("completions")
    if now not in (None, before.get("completions")) and now != spec.get("parallelism"):
        words = "can only be modified in tandem with spec.parallelism"
        yield invalid("spec.completions", now, words)


def _with_directives(new: JsonObject, old: JsonObject) -> JsonObject:
    """The old template with what may change of a job that has never started: where its pods may run."""
    template: JsonObject = {**old, "metadata": {**mapping(old, "metadata")}, "spec": {**mapping(old, "spec")}}
    for part, keys in (
        ("metadata", ("annotations", "labels")),
        ("spec", ("nodeSelector", "tolerations", "schedulingGates")),
    ):
        for key in keys:
            mapping(template, part).pop(key, None)
            if key in mapping(new, part):
                mapping(template, part)[key] = mapping(new, part)[key]
    spec = mapping(template, "spec")
    affinity = {key: value for key, value in mapping(spec, "affinity").items() if key != "nodeAffinity"}
    new_affinity = mapping(new, "spec", "affinity")
    if "nodeAffinity" in new_affinity:
        affinity["nodeAffinity"] = new_affinity["nodeAffinity"]
    spec.pop("affinity", None)
    if affinity or "affinity" in mapping(new, "spec"):
        spec["affinity"] = affinity
    return template


def cron_job(obj: JsonObject) -> FieldErrors:
    """A new CronJob."""
    yield from _cron_job(mapping(obj, "spec"), None)
    name = text(obj, "metadata", "name")
    if len(name.encode()) > _LONGEST_CRON_NAME:
        yield invalid("metadata.name", name, f"must be no more than {_LONGEST_CRON_NAME} characters")


def cron_job_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed CronJob."""
    yield from _cron_job(mapping(new, "spec"), mapping(old, "spec"))


def _cron_job(spec: JsonObject, before: JsonObject | None) -> FieldErrors:
    yield from _schedule(spec, before)
    yield from nonnegative(spec, "startingDeadlineSeconds", "spec")
    if spec.get("timeZone") is not None and (before is None or before.get("timeZone") != spec["timeZone"]):
        yield from _time_zone(text(spec, "timeZone"), "spec.timeZone")
    policy, policies = text(spec, "concurrencyPolicy"), ("Allow", "Forbid", "Replace")
    if not policy:
        yield required("spec.concurrencyPolicy")
    elif policy not in policies:
        yield unsupported("spec.concurrencyPolicy", policy, policies)
    template = mapping(spec, "jobTemplate", "spec")
    yield from job_spec(template, "spec.jobTemplate.spec")
    if template.get("selector") is not None:
        words = "`selector` will be auto-generated"
        yield invalid("spec.jobTemplate.spec.selector", template["selector"], words)
    if flag(template, "manualSelector"):
        yield unsupported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    for key in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from nonnegative(spec, key, "spec")


def _schedule(spec: JsonObject, before: JsonObject | None) -> FieldErrors:
    schedule = text(spec, "schedule")
    if not schedule:
        yield required("spec.schedule")
        return
    if wrong := schedule_problem(schedule):
        yield invalid("spec.schedule", schedule, wrong)
    if "TZ" not in schedule:
        return
    if before is None or "TZ" not in text(before, "schedule"):
        words = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid("spec.schedule", schedule, words)
    elif spec.get("timeZone") is not None:
        words = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield invalid("spec.schedule", schedule, words)


def _time_zone(zone: str, path: str) -> FieldErrors:
    if not zone:
        yield invalid(path, zone, "timeZone must be nil or non-empty string")
        return
    if zone.lower() == "local":
        words = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid(path, zone, words)
    if zone != "Local" and zone not in load_time_zones():
        yield invalid(path, zone, f"unknown time zone {zone}")
