"""Columns of workloads.

Source: pkg/printers/internalversion/printers.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, flag, items, mapping, mappings, number, text
from tonnage.twin.apiserver.object_store import Resource
from tonnage.twin.apiserver.printers.columns import (
    NONE,
    Cells,
    Column,
    Printer,
    age,
    containers,
    duration,
    labels_text,
    moment,
    name_of,
    named_columns,
    since,
    wide,
)
from tonnage.twin.apiserver.writing.subresources import selector_text


def _selector(obj: JsonObject) -> str:
    return selector_text(at(obj, "spec", "selector")) or NONE


def _template(obj: JsonObject) -> list[JsonValue]:
    return [*containers(mapping(obj, "spec", "template", "spec")), _selector(obj)]


def _deployment(obj: JsonObject, now: datetime) -> list[JsonValue]:
    status = mapping(obj, "status")
    return [
        name_of(obj),
        f"{number(status, 'readyReplicas')}/{number(obj, 'spec', 'replicas')}",
        number(status, "updatedReplicas"),
        number(status, "availableReplicas"),
        age(obj, now),
        *_template(obj),
    ]


def _replica_set(obj: JsonObject, now: datetime) -> list[JsonValue]:
    status = mapping(obj, "status")
    return [
        name_of(obj),
        number(obj, "spec", "replicas"),
        number(status, "replicas"),
        number(status, "readyReplicas"),
        age(obj, now),
        *_template(obj),
    ]


def _daemon_set(obj: JsonObject, now: datetime) -> list[JsonValue]:
    status = mapping(obj, "status")
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name_of(obj),
        *(number(status, key) for key in counts),
        labels_text(mapping(obj, "spec", "template", "spec", "nodeSelector")),
        age(obj, now),
        *_template(obj),
    ]


def _stateful_set(obj: JsonObject, now: datetime) -> list[JsonValue]:
    ready = f"{number(obj, 'status', 'readyReplicas')}/{number(obj, 'spec', 'replicas')}"
    return [name_of(obj), ready, age(obj, now), *containers(mapping(obj, "spec", "template", "spec"))]


def _job(obj: JsonObject, now: datetime) -> list[JsonValue]:
    spec, status = mapping(obj, "spec"), mapping(obj, "status")
    done, total, at_once = (
        number(status, "succeeded"),
        at(spec, "completions"),
        number(spec, "parallelism", default=1),
    )
    if total is None:
        completions = f"{done}/1 of {at_once}" if at_once > 1 else f"{done}/1"
    else:
        completions = f"{done}/{total}"
    begun, ended = moment(text(status, "startTime")), moment(text(status, "completionTime"))
    lasted = "" if begun is None else duration(((ended or now) - begun).total_seconds())
    return [name_of(obj), _job_status(obj), completions, lasted, age(obj, now), *_template(obj)]


def _job_status(obj: JsonObject) -> str:
    true = {
        text(entry, "type")
        for entry in mappings(obj, "status", "conditions")
        if text(entry, "status") == "True"
    }
    for condition, shown in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if condition in true:
            return shown
    return "Terminating" if text(obj, "metadata", "deletionTimestamp") else "Running"


def _cron_job(obj: JsonObject, now: datetime) -> list[JsonValue]:
    spec = mapping(obj, "spec")
    last = text(obj, "status", "lastScheduleTime")
    pod_spec = mapping(spec, "jobTemplate", "spec", "template", "spec")
    return [
        name_of(obj),
        text(spec, "schedule"),
        text(spec, "timeZone") or NONE,
        str(flag(spec, "suspend")),
        len(items(obj, "status", "active")),
        since(last, now) if last else NONE,
        age(obj, now),
        *containers(pod_spec),
        selector_text(at(spec, "jobTemplate", "spec", "selector")) or NONE,
    ]


def _pod_template(obj: JsonObject, _now: datetime) -> list[JsonValue]:
    labels = labels_text(mapping(obj, "template", "metadata", "labels"))
    return [name_of(obj), *containers(mapping(obj, "template", "spec")), labels]


def _printer(
    columns: str, integers: Iterable[str], wide_columns: tuple[Column, ...], cells: Cells
) -> Printer:
    typed = "|".join(f"{name}:integer" if name in integers else name for name in columns.split("|"))
    return Printer((*named_columns(typed), *wide_columns), cells)


_WIDE: Final = wide("Containers", "Images", "Selector")
_COUNTS: Final = frozenset({"Up-to-date", "Available", "Desired", "Current", "Ready", "Active"})
WORKLOADS: Final[dict[Resource, Printer]] = {
    ("apps", "deployments"): _printer("Ready|Up-to-date|Available|Age", (), _WIDE, _deployment),
    ("apps", "replicasets"): _printer("Desired|Current|Ready|Age", _COUNTS, _WIDE, _replica_set),
    ("apps", "daemonsets"): _printer(
        "Desired|Current|Ready|Up-to-date|Available|Node Selector|Age", _COUNTS, _WIDE, _daemon_set
    ),
    ("apps", "statefulsets"): _printer("Ready|Age", (), wide("Containers", "Images"), _stateful_set),
    ("", "podtemplates"): _printer("Containers|Images|Pod Labels", (), (), _pod_template),
    ("", "replicationcontrollers"): _printer("Desired|Current|Ready|Age", _COUNTS, _WIDE, _replica_set),
    ("batch", "jobs"): _printer("Status|Completions|Duration|Age", (), _WIDE, _job),
    ("batch", "cronjobs"): _printer(
        "Schedule|Timezone|Suspend:boolean|Active|Last Schedule|Age", _COUNTS, _WIDE, _cron_job
    ),
}
