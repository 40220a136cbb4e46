"""What is paused on a Node while its MIG layout changes, and what it was before: one annotation says both.

It is written with what it tells of, by one patch, so that there is never one without the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tonnage.model.json import JsonObject, JsonValue, parsed_json

ANNOTATION: Final = "tonnage.dev/mig-paused"
OPERANDS: Final = tuple(
    f"nvidia.com/gpu.deploy.{name}"
    for name in ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm", "client")
)
"""Labels by which NVIDIA's operator has programs on a node that keep its GPUs open."""
PAUSED: Final = "paused-for-mig-change"
"""The value that NVIDIA's MIG manager gives them: their operator leaves it alone."""
_OFF: Final = ("false", PAUSED)


@dataclass(frozen=True, slots=True)
class Paused:
    """What this agent paused: the node was cordoned, and labels had these values."""

    cordoned: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeNow:
    """The Node as far as it matters here."""

    version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    unschedulable: bool = False

    @property
    def paused(self) -> Paused:
        """What the annotation says; what somebody else wrote into it counts only where it makes sense."""
        try:
            recorded = parsed_json(self.annotations.get(ANNOTATION, "{}"))
        except ValueError:
            return Paused()
        if not isinstance(recorded, dict):
            return Paused()
        labels = recorded.get("labels")
        operands = labels if isinstance(labels, dict) else {}
        return Paused(
            recorded.get("cordoned") is True,
            {key: value for key, value in operands.items() if key in OPERANDS and isinstance(value, str)},
        )


def pause(node: NodeNow, *, cordon: bool, operands: bool) -> JsonObject | None:
    """The patch of the Node that pauses; None: it is so already. What is paused by others stays theirs."""
    before = node.paused
    cordon = cordon and not node.unschedulable
    labels = {
        key: value
        for key, value in node.labels.items()
        if operands and key in OPERANDS and value not in _OFF and key not in before.labels
    }
    if not cordon and not labels:
        return None
    after: JsonObject = {"cordoned": cordon or before.cordoned, "labels": {**before.labels, **labels}}
    patch = _patch(node, dict.fromkeys(labels, PAUSED), json.dumps(after, sort_keys=True))
    return patch | {"spec": {"unschedulable": True}} if cordon else patch


def resume(node: NodeNow) -> JsonObject | None:
    """The patch that gives labels their values again and leaves the node cordoned; None: none is paused."""
    before = node.paused
    if not before.labels:
        return None
    labels = {key: value for key, value in before.labels.items() if node.labels.get(key) == PAUSED}
    left: JsonObject = {"cordoned": True, "labels": {}}
    return _patch(node, labels, json.dumps(left, sort_keys=True) if before.cordoned else None)


def restore(node: NodeNow) -> JsonObject | None:
    """The patch that gives everything its recorded value; None: nothing is paused.

    What somebody gave another value meanwhile keeps that one.
    """
    if ANNOTATION not in node.annotations:
        return None
    before = node.paused
    labels = {key: value for key, value in before.labels.items() if node.labels.get(key) == PAUSED}
    patch = _patch(node, labels, None)
    return patch | {"spec": {"unschedulable": None}} if before.cordoned and node.unschedulable else patch


def _patch(node: NodeNow, labels: Mapping[str, str], annotation: str | None) -> JsonObject:
    """Only of the Node as it was seen."""
    metadata: dict[str, JsonValue] = {
        "annotations": {ANNOTATION: annotation},
        "resourceVersion": node.version,
    }
    return {"metadata": metadata | ({"labels": dict(labels)} if labels else {})}
