"""HorizontalPodAutoscalers in their first version, which has one metric; the rest stands in annotations.

Source: pkg/apis/autoscaling/v1/conversion.go, pkg/apis/autoscaling/annotations.go (v1.35).
"""

from __future__ import annotations

import json
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.apiserver.access import at, copied, mapping, mappings, number, put, text
from tonnage.twin.apiserver.objects.body import BodyError, parse_json

FIRST: Final = "autoscaling/v1"
STORED: Final = "autoscaling/v2"
AUTOSCALER: Final = "HorizontalPodAutoscaler"
_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = _PREFIX + "metrics"
_CURRENT: Final = _PREFIX + "current-metrics"
_CONDITIONS: Final = _PREFIX + "conditions"
_BEHAVIOR: Final = _PREFIX + "behavior"
_KEPT: Final = (
    _METRICS,
    _CURRENT,
    _CONDITIONS,
    _BEHAVIOR,
    _PREFIX + "scale-down-tolerance",
    _PREFIX + "scale-up-tolerance",
)
_DEFAULT_PERCENT: Final = 80
_SOURCES: Final = ("object", "pods", "resource", "containerResource", "external")
_SHAPES: Final[dict[str, tuple[tuple[str, tuple[str, ...], JsonValue], ...]]] = {
    "object": (
        ("target", ("describedObject",), None),
        ("metricName", ("metric", "name"), ""),
        ("{}Value", ("{}", "value"), "0"),
        ("selector", ("metric", "selector"), None),
        ("averageValue", ("{}", "averageValue"), None),
    ),
    "pods": (
        ("metricName", ("metric", "name"), ""),
        ("{}AverageValue", ("{}", "averageValue"), "0"),
        ("selector", ("metric", "selector"), None),
    ),
    "resource": (
        ("name", ("name",), ""),
        ("{}AverageUtilization", ("{}", "averageUtilization"), None),
        ("{}AverageValue", ("{}", "averageValue"), None),
    ),
    "containerResource": (
        ("name", ("name",), ""),
        ("{}AverageUtilization", ("{}", "averageUtilization"), None),
        ("{}AverageValue", ("{}", "averageValue"), None),
        ("container", ("container",), ""),
    ),
    "external": (
        ("metricName", ("metric", "name"), ""),
        ("metricSelector", ("metric", "selector"), None),
        ("{}Value", ("{}", "value"), None),
        ("{}AverageValue", ("{}", "averageValue"), None),
    ),
}
"""Of each source of metrics: the field of old, where it is today, and what stands for it when unset.

`{}` is `target` in a spec and `current` in a status.
"""


def is_first(version: str, kind: str) -> bool:
    """Whether an object is an autoscaler of the first version."""
    return version == FIRST and kind == AUTOSCALER


def first_autoscaler(stored: JsonObject) -> JsonObject:
    """A stored autoscaler as `autoscaling/v1` shows it."""
    metrics, status = mappings(stored, "spec", "metrics"), mapping(stored, "status")
    behavior = at(stored, "spec", "behavior")
    said: dict[str, JsonValue] = {
        _METRICS: [_old_metric(one, "target") for one in metrics if not _is_share(one)],
        _CURRENT: [_old_metric(one, "current") for one in mappings(status, "currentMetrics")],
        _BEHAVIOR: _behavior_in_go(behavior) if isinstance(behavior, dict) else None,
        _CONDITIONS: status.get("conditions"),
    }
    notes: JsonObject = {key: _encoded(value) for key, value in said.items() if value}
    shown = _renamed(stored, FIRST, notes)
    spec: JsonObject = {
        key: value for key, value in mapping(stored, "spec").items() if key not in ("metrics", "behavior")
    }
    share = next((one for one in metrics if _is_share(one)), None)
    if share is not None:
        spec["targetCPUUtilizationPercentage"] = at(share, "resource", "target", "averageUtilization")
    return {**shown, "spec": spec, "status": _first_status(status)}


def _first_status(status: JsonObject) -> JsonObject:
    shown: JsonObject = {key: number(status, key) for key in ("currentReplicas", "desiredReplicas")}
    shown |= {key: status[key] for key in ("observedGeneration", "lastScaleTime") if key in status}
    for one in mappings(status, "currentMetrics"):
        used = at(one, "resource", "current", "averageUtilization")
        if text(one, "resource", "name") == "cpu" and used is not None:
            shown["currentCPUUtilizationPercentage"] = used
    return shown


def stored_autoscaler(shown: JsonObject) -> JsonObject:
    """The opposite: what is kept of an autoscaler that was written in its first version."""
    notes = mapping(shown, "metadata", "annotations")
    spec, status = copied(mapping(shown, "spec")), copied(mapping(shown, "status"))
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metrics: list[JsonValue] = [_new_metric(one, "target") for one in _decoded_list(notes, _METRICS)]
    if percent is not None or not metrics:
        metrics.append(_share(_DEFAULT_PERCENT if percent is None else percent))
    spec["metrics"] = metrics
    if behavior := _decoded(notes, _BEHAVIOR):
        spec["behavior"] = _behavior_in_json(mapping({"it": behavior}, "it"))
    if status.get("currentReplicas") == 0:
        status.pop("currentReplicas")
    used = status.pop("currentCPUUtilizationPercentage", None)
    current: list[JsonValue] = [_new_metric(one, "current") for one in _decoded_list(notes, _CURRENT)]
    if used is not None and not current:
        utilization: JsonObject = {"name": "cpu", "current": {"averageUtilization": used}}
        current = [{"type": "Resource", "resource": utilization}]
    status["currentMetrics"] = current or None
    if conditions := _decoded_list(notes, _CONDITIONS):
        status["conditions"] = list(conditions)
    return {**_renamed(shown, STORED, {}), "spec": spec, "status": status}


def _renamed(obj: JsonObject, version: str, notes: JsonObject) -> JsonObject:
    """The object under another version, with these annotations instead of those that stood for fields."""
    metadata = {**mapping(obj, "metadata")}
    known = mapping(metadata, "annotations")
    rest = {**{key: value for key, value in known.items() if key not in _KEPT}, **notes}
    metadata.pop("annotations", None)
    if rest:
        metadata["annotations"] = rest
    return {**obj, "apiVersion": version, "metadata": metadata}


def _is_share(metric: JsonObject) -> bool:
    """Whether a metric is the share of CPU, which the first version has a field for."""
    share = at(metric, "resource", "target", "averageUtilization")
    return (
        text(metric, "type") == "Resource" and text(metric, "resource", "name") == "cpu" and share is not None
    )


def _share(percent: JsonValue) -> JsonObject:
    target: JsonObject = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _old_metric(metric: JsonObject, what: str) -> JsonObject:
    shown: JsonObject = {"type": text(metric, "type")}
    for kind in _SOURCES:
        if not isinstance(source := metric.get(kind), dict):
            continue
        fields: JsonObject = {}
        for old, path, unset in _SHAPES[kind]:
            value = at(source, *(part.format(what) for part in path))
            if value is None and what == "current" and old == "{}AverageValue" and kind != "external":
                value = "0"
            if value is not None or unset is not None:
                fields[old.format(what)] = unset if value is None else value
        shown[kind] = fields
    return shown


def _new_metric(metric: JsonObject, what: str) -> JsonObject:
    shown: JsonObject = {"type": text(metric, "type")}
    for kind in _SOURCES:
        if not isinstance(source := metric.get(kind), dict):
            continue
        fields: JsonObject = {}
        for old, path, _ in _SHAPES[kind]:
            if (value := source.get(old.format(what))) is not None:
                put(fields, value, *(part.format(what) for part in path))
        if what == "target":
            put(fields, _target_type(kind, mapping(fields, "target")), "target", "type")
        shown[kind] = fields
    return shown


def _target_type(kind: str, target: JsonObject) -> str:
    if kind in ("resource", "containerResource"):
        return "AverageValue" if target.get("averageUtilization") is None else "Utilization"
    if kind == "object":
        return "Value" if target.get("averageValue") is None else "AverageValue"
    return "AverageValue" if kind == "pods" or target.get("value") is None else "Value"


def _behavior_in_go(behavior: JsonObject) -> JsonObject:
    """How fast it goes, by the names that fields have in Go, set or not."""
    shown: JsonObject = {}
    for key in ("scaleUp", "scaleDown"):
        rules = behavior.get(key)
        if not isinstance(rules, dict):
            shown[_capital(key)] = None
            continue
        policies: list[JsonValue] = [
            {_capital(name): one.get(name) for name in ("type", "value", "periodSeconds")}
            for one in mappings(rules, "policies")
        ]
        names = ("stabilizationWindowSeconds", "selectPolicy")
        told: JsonObject = {_capital(name): rules.get(name) for name in names}
        shown[_capital(key)] = {**told, "Policies": policies or None, "Tolerance": rules.get("tolerance")}
    return shown


def _behavior_in_json(behavior: JsonObject) -> JsonObject:
    """The opposite, without what is not set; Go reads names in either spelling."""
    shown: JsonObject = {}
    for key in ("scaleUp", "scaleDown"):
        if isinstance(rules := _read(behavior, key), dict):
            told = _set(rules, "stabilizationWindowSeconds", "selectPolicy", "tolerance")
            ways = mappings({"it": _read(rules, "policies")}, "it")
            policies: list[JsonValue] = [_set(one, "type", "value", "periodSeconds") for one in ways]
            shown[key] = {**told, **({"policies": policies} if policies else {})}
    return shown


def _set(held: JsonObject, *names: str) -> JsonObject:
    return {name: value for name in names if (value := _read(held, name)) is not None}


def _read(held: JsonObject, name: str) -> JsonValue:
    return held.get(_capital(name), held.get(name))


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]


def _encoded(value: JsonValue) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _decoded(notes: JsonObject, key: str) -> JsonValue:
    """What an annotation holds; None where it is none of ours."""
    try:
        return parse_json((text(notes, key) or "null").encode())
    except BodyError:
        return None


def _decoded_list(notes: JsonObject, key: str) -> list[JsonObject]:
    return mappings({"it": _decoded(notes, key)}, "it")
