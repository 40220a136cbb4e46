"""What a node's silence and conditions mean: pure.

Source: k8s.io/kubernetes/pkg/controller/nodelifecycle (v1.35).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.model.kubernetes.well_known import NOT_READY
from tonnage.wire.objects import Condition, Node, Taint

GRACE_S: Final = 50.0
"""How long a node may be silent: `--node-monitor-grace-period`, 50 s since 1.32 (40 s before)."""

UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_TTL: Final = "node.alpha.kubernetes.io/ttl"
_OLD_LABELS: Final = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}
_BY_CONDITION: Final = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_MANAGED: Final = frozenset({*_BY_CONDITION.values(), UNSCHEDULABLE})
_HEARTBEATS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def ready_status(node: Node) -> str:
    """`True`, `False` or `Unknown`; empty for a node that has never said."""
    return next((c.status for c in node.status.conditions if c.type == "Ready"), "")


def eviction_key(node: Node) -> str:
    """The key of the taint by which a node that is not ready loses its pods; empty for any other node."""
    return _BY_CONDITION.get(("Ready", ready_status(node)), "")


def is_evicting(node: Node) -> bool:
    """Whether the node has a taint by which it loses its pods, be it that of the condition before."""
    return any(taint.effect == "NoExecute" and _managed(taint) for taint in node.spec.taints)


def wanted_taints(node: Node, now: datetime, *, evict: bool) -> list[Taint]:
    """The node's taints as its conditions and `unschedulable` want them; those of others stay as they are.

    New ones follow in the order of the conditions; only where `evict` says so does one make pods leave.
    """
    conditions = (
        _BY_CONDITION.get((condition.type, condition.status)) for condition in node.status.conditions
    )
    keys = [key for key in conditions if key is not None]
    required = [(key, "NoSchedule") for key in keys + [UNSCHEDULABLE] * node.spec.unschedulable]
    if evict and (key := eviction_key(node)):
        required.append((key, "NoExecute"))
    foreign = [
        taint for taint in node.spec.taints if not _managed(taint) or (taint.key, taint.effect) in required
    ]
    present = {(taint.key, taint.effect) for taint in foreign}
    added = [
        Taint(key=key, effect=effect, time_added=timestamp(now))
        for key, effect in dict.fromkeys(required)
        if (key, effect) not in present
    ]
    return [*foreign, *added]


def lacking_metadata(node: Node) -> JsonObject:
    """Labels and annotations that a node must still be given, empty when it has all.

    The old names of its operating system and architecture follow the new ones; kubelets read how long they
    may keep secrets from an annotation, which is 0 in a cluster of up to 100 nodes.
    Source: k8s.io/kubernetes/pkg/controller (nodelifecycle, ttl), v1.35.
    """
    labels = node.metadata.labels
    missing_labels: JsonObject = {
        old: labels[new]
        for new, old in _OLD_LABELS.items()
        if new in labels and labels.get(old) != labels[new]
    }
    metadata: JsonObject = {"labels": missing_labels} if missing_labels else {}
    if _TTL not in node.metadata.annotations:
        metadata["annotations"] = {_TTL: "0"}
    return metadata


def _managed(taint: Taint) -> bool:
    if taint.effect == "NoExecute":
        return taint.key in (NOT_READY, UNREACHABLE)
    return taint.effect == "NoSchedule" and taint.key in _MANAGED


def silent_conditions(node: Node, now: datetime) -> list[Condition]:
    """The node's conditions when its kubelet has been silent for too long: what it vouched for is unknown."""
    by_type = {condition.type: condition for condition in node.status.conditions}
    changed: list[Condition] = []
    for condition_type in _HEARTBEATS:
        before = by_type.get(condition_type)
        if before is not None and before.status == "Unknown":
            continue
        by_type[condition_type] = Condition(
            type=condition_type,
            status="Unknown",
            reason="NodeStatusUnknown" if before is not None else "NodeStatusNeverUpdated",
            message="Kubelet stopped posting node status."
            if before is not None
            else "Kubelet never posted node status.",
            last_heartbeat_time=before.last_heartbeat_time
            if before is not None
            else node.metadata.creation_timestamp,
            last_transition_time=timestamp(now),
        )
        changed.append(by_type[condition_type])
    return list(by_type.values()) if changed else node.status.conditions
