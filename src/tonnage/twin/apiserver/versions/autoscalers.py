"""HorizontalPodAutoscalers in their first version, which has one metric: the share of CPU.

What else a stored one says (other metrics, behavior, conditions) is not in the first version, and goes when
it is written there: a genuine server keeps that in annotations.

Source: pkg/apis/autoscaling/v1/conversion.go (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, copied, mapping, mappings, number, text

FIRST: Final = "autoscaling/v1"
STORED: Final = "autoscaling/v2"
AUTOSCALER: Final = "HorizontalPodAutoscaler"
_DEFAULT_PERCENT: Final = 80


def is_first(version: str, kind: str) -> bool:
    """Whether an object is an autoscaler of the first version."""
    return version == FIRST and kind == AUTOSCALER


def first_autoscaler(stored: JsonObject) -> JsonObject:
    """A stored autoscaler as `autoscaling/v1` shows it."""
    spec, status = copied(mapping(stored, "spec")), mapping(stored, "status")
    spec.pop("behavior", None)
    shares = [
        at(metric, "resource", "target", "averageUtilization")
        for metric in mappings({"it": spec.pop("metrics", None)}, "it")
        if text(metric, "resource", "name") == "cpu"
    ]
    if share := next((percentage for percentage in shares if percentage is not None), None):
        spec["targetCPUUtilizationPercentage"] = share
    shown: JsonObject = {key: number(status, key) for key in ("currentReplicas", "desiredReplicas")}
    shown |= {key: status[key] for key in ("observedGeneration", "lastScaleTime") if key in status}
    return {**stored, "apiVersion": FIRST, "spec": spec, "status": shown}


def stored_autoscaler(shown: JsonObject) -> JsonObject:
    """The opposite: what is kept of an autoscaler that was written in its first version."""
    spec, status = copied(mapping(shown, "spec")), copied(mapping(shown, "status"))
    percent: JsonValue = spec.pop("targetCPUUtilizationPercentage", None)
    target: JsonObject = {
        "type": "Utilization",
        "averageUtilization": _DEFAULT_PERCENT if percent is None else percent,
    }
    spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if status.get("currentReplicas") == 0:
        status.pop("currentReplicas")
    status.pop("currentCPUUtilizationPercentage", None)
    return {**shown, "apiVersion": STORED, "spec": spec, "status": {**status, "currentMetrics": None}}
