"""What a node says of itself beside amounts and labels: what ails it, who closed it, HAMi's notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from tonnage.model.json import JsonValue
from tonnage.model.kubernetes.cluster import Cordon, Node, NodeCondition
from tonnage.reading.object_parts import moment
from tonnage.wire import objects as w

_GOOD: Final = frozenset(("Ready", "GPUsHealthy", "GPUConfigApplied"))
"""Conditions that are well when they are True; all others are well when they are False."""
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_HAMI: Final = "hami.io/"
_CHOOSING: Final = frozenset(
    f"nvidia.com/{use}-gpu{suffix}" for use in ("use", "nouse") for suffix in ("type", "uuid")
)
_LONGEST: Final = 1 << 20


def problem_conditions_of(conditions: Iterable[w.Condition]) -> tuple[NodeCondition, ...]:
    """Conditions that say that something is wrong."""
    return tuple(
        NodeCondition(c.type, c.status, c.reason, c.message, moment(c.last_transition_time))
        for c in conditions
        if (c.status != "True" if c.type in _GOOD else c.status == "True")
    )


def cordon_of(node: w.Node) -> Cordon:
    """When a node was closed, as its taint has it."""
    if not node.spec.unschedulable:
        return Cordon()
    times = [moment(taint.time_added) for taint in node.spec.taints if taint.key == _UNSCHEDULABLE]
    return Cordon(at=next((time for time in times if time is not None), None))


def with_manager(node: Node, body: Mapping[str, JsonValue]) -> Node:
    """The cordoned node with who set `spec.unschedulable`, as `metadata.managedFields` of its JSON has it."""
    metadata = body.get("metadata")
    entries = metadata.get("managedFields") if isinstance(metadata, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        fields = entry.get("fieldsV1") if isinstance(entry, dict) else None
        spec = fields.get("f:spec") if isinstance(fields, dict) else None
        if isinstance(entry, dict) and isinstance(spec, dict) and "f:unschedulable" in spec:
            time = entry.get("time")
            at = moment(time) if isinstance(time, str) else None
            return replace(node, cordon=Cordon(str(entry.get("manager", "")), at or node.cordon.at))
    return node


def hami_notes(annotations: Mapping[str, str]) -> dict[str, str]:
    """HAMi's annotations: a node's devices, a pod's share of them, and wishes which GPUs to take."""
    return {
        key.removeprefix(_HAMI): text
        for key, text in annotations.items()
        if is_hami_note(key) and len(text) <= _LONGEST
    }


def is_hami_note(key: str) -> bool:
    """Whether an annotation bears on HAMi's choice of devices."""
    return key.startswith(_HAMI) or key in _CHOOSING
