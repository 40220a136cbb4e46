"""What a HorizontalPodAutoscaler says where nothing is measured, as on a cluster without metrics.

Source: pkg/controller/podautoscaler of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.model.json import JsonObject, JsonValue

_MISSING: Final = "the server could not find the requested resource"
_RESOURCE: Final = (
    "unable to fetch metrics from resource metrics API: " + f"{_MISSING} (get pods.metrics.k8s.io)"
)
_CUSTOM: Final = (
    "unable to fetch metrics from custom metrics API: "
    "no custom metrics API (custom.metrics.k8s.io) registered"
)
Unmeasured = tuple[str, str, str]
"""The reason, what its Event says, and how that is told when it is the first error."""


def unmeasured(metrics: list[JsonObject], namespace: str) -> list[Unmeasured]:
    """Why none of the metrics is known, in their order."""
    return list(_each(metrics, namespace))


def _each(metrics: list[JsonObject], namespace: str) -> Iterator[Unmeasured]:
    for metric in metrics:
        kind = str(metric.get("type"))
        source = _object(metric, f"{kind[:1].lower()}{kind[1:]}")
        name = str(source.get("name") or _object(source, "metric").get("name"))
        reason = f"FailedGet{kind}Metric"
        average = _object(source, "target").get("averageValue") is not None
        match kind:
            case "Resource" | "ContainerResource":
                what = "usage" if average else "utilization"
                why = f"failed to get {name} {what}: unable to get metrics for resource {name}: {_RESOURCE}"
                inner = source.get("container")
                told = f"{name} resource" if kind == "Resource" else f"{inner} container"
                yield reason, why, f"failed to get {told} metric value: {why}"
            case "Pods":
                why = f"unable to get metric {name}: {_CUSTOM}"
                yield reason, why, f"failed to get pods metric value: {why}"
            case "Object":
                described = _object(source, "describedObject")
                where = f"{described.get('kind')} on {namespace} {described.get('name')}"
                why = f"unable to get metric {name}: {where}/{_CUSTOM}"
                inner_told = f"failed to get {name} object metric: {why}" if average else why
                yield reason, why, f"failed to get object metric value: {inner_told}"
            case _:
                missing = f"{_MISSING} (get {name}.external.metrics.k8s.io)"
                why = f"unable to get external metric {namespace}/{name}/nil: "
                why += f"unable to fetch metrics from external metrics API: {missing}"
                how = f"{name} external metric" if average else f"external metric {name}"
                yield reason, why, f"failed to get {name} external metric value: failed to get {how}: {why}"


def with_condition(status: JsonObject, kind: str, value: bool, reason: str, why: str, now: str) -> JsonObject:
    """The status with a condition of this type; the time is that of its last change of value."""
    listed = status.get("conditions")
    conditions: list[JsonValue] = list(listed) if isinstance(listed, list) else []
    told = "True" if value else "False"
    new: JsonObject = {
        "type": kind,
        "status": told,
        "lastTransitionTime": now,
        "reason": reason,
        "message": why,
    }
    for index, one in enumerate(conditions):
        if isinstance(one, dict) and one.get("type") == kind:
            if one.get("status") == told:
                new["lastTransitionTime"] = one.get("lastTransitionTime")
            conditions[index] = new
            break
    else:
        conditions.append(new)
    return {**status, "conditions": conditions}


def _object(holder: JsonObject, key: str) -> JsonObject:
    value = holder.get(key)
    return value if isinstance(value, dict) else {}
