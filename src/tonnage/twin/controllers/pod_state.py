"""ActivePodsWithRanks: whether a pod is active, ready, available, and which one is deleted first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from tonnage.model.kubernetes.timestamps import moment_of
from tonnage.model.kubernetes.well_known import DELETION_COST
from tonnage.wire.objects import Condition, Pod

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_NEVER: Final = "9999"


def is_active(pod: Pod) -> bool:
    """Neither finished nor on its way out."""
    return pod.status.phase not in ("Succeeded", "Failed") and pod.metadata.deletion_timestamp is None


def is_terminating(pod: Pod) -> bool:
    """On its way out and not finished."""
    return pod.status.phase not in ("Succeeded", "Failed") and pod.metadata.deletion_timestamp is not None


def ready_condition(pod: Pod) -> Condition | None:
    """The pod's Ready condition when it is true."""
    return next((c for c in pod.status.conditions if c.type == "Ready" and c.status == "True"), None)


def is_ready(pod: Pod) -> bool:
    """Whether the pod's Ready condition is true."""
    return ready_condition(pod) is not None


def available_in_s(pod: Pod, min_ready_s: int, now: datetime) -> float | None:
    """Seconds until a pod has been ready for `min_ready_s`: 0 when it has, None when it is not ready."""
    ready = ready_condition(pod)
    if ready is None:
        return None
    if min_ready_s <= 0:
        return 0.0
    if ready.last_transition_time is None:
        return float(min_ready_s)
    since = moment_of(ready.last_transition_time)
    return max((since + timedelta(seconds=min_ready_s) - now).total_seconds(), 0.0)


def in_deletion_order(pods: Iterable[Pod], related: Iterable[Pod]) -> list[Pod]:
    """Pods, the one that is missed least first.

    Not on a node, then pending, not ready, cheap (`pod-deletion-cost`), crowded (many `related` active pods
    on its node), ready only for a short time, often restarted, young.

    Source: ActivePodsWithRanks in k8s.io/kubernetes/pkg/controller (v1.35).
    """
    crowd = Counter(pod.spec.node_name for pod in related if is_active(pod) and pod.spec.node_name)

    def rank(pod: Pod) -> tuple[bool, int, bool, int, int, _Newest, int, _Newest, str]:
        ready = ready_condition(pod)
        since = ready.last_transition_time or _NEVER if ready else ""
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 0),
            ready is not None,
            _deletion_cost(pod),
            -crowd[pod.spec.node_name],
            _Newest(since),
            -_restarts(pod),
            _Newest(pod.metadata.creation_timestamp or _NEVER),
            pod.metadata.name,
        )

    return sorted(pods, key=rank)


class _Newest:
    """Orders time stamps, the latest first."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Newest) and self.text == other.text

    def __lt__(self, other: _Newest) -> bool:
        return self.text > other.text

    __hash__ = None  # type: ignore[assignment]


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _restarts(pod: Pod) -> int:
    counts = (status.get("restartCount", 0) for status in pod.status.container_statuses)
    return max((count for count in counts if isinstance(count, int)), default=0)
