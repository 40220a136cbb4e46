"""StatefulSetControl: what a StatefulSet does next: make a pod, delete one, or wait for one.

In order, unless pods may come and go in parallel: one pod at a time, the next once the last is available.

Source: updateStatefulSet in pkg/controller/statefulset/stateful_set_control.go (v1.35).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from tonnage.twin.controllers.pod_state import available_in_s, is_ready
from tonnage.twin.controllers.stateful.template import ordinal_of, revision_of, start_of
from tonnage.wire.objects import Pod
from tonnage.wire.workloads import StatefulSet, StatefulSetStatus


@dataclass(frozen=True, slots=True)
class OrdinalPlan:
    """Ordinals to make, each of the present revision or of the one before; pods to delete.

    `updates` is how many of those are deleted to be made anew. Of `lacking` pods missing claims are made;
    claims of `owning` ones get the owners that the retention policy says.
    """

    make: list[tuple[int, bool]] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)
    updates: int = 0
    lacking: list[Pod] = field(default_factory=list)
    owning: list[Pod] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Order:
    """Pods by their place, None where one is missing, and those that are too many, the last first."""

    replicas: list[Pod | None]
    condemned: list[Pod]


def _order(stateful_set: StatefulSet, pods: list[Pod]) -> _Order:
    start, count = start_of(stateful_set), stateful_set.spec.replicas
    by_ordinal = {ordinal_of(pod, stateful_set): pod for pod in pods}
    numbers = [number for number in by_ordinal if number is not None]
    outside = sorted((n for n in numbers if not start <= n < start + count), reverse=True)
    return _Order([by_ordinal.get(start + i) for i in range(count)], [by_ordinal[n] for n in outside])


def _waits(pod: Pod | None, stateful_set: StatefulSet, now: datetime) -> bool:
    """Whether the pod is not available, or not for long."""
    if pod is None or pod.metadata.deletion_timestamp is not None:
        return True
    return available_in_s(pod, stateful_set.spec.min_ready_seconds, now) != 0


def plan(stateful_set: StatefulSet, pods: list[Pod], current: str, update: str, now: datetime) -> OrdinalPlan:
    """The next step. `current` and `update` name revisions."""
    order = _order(stateful_set, pods)
    step = OrdinalPlan()
    ordered = stateful_set.spec.pod_management_policy != "Parallel"
    if not _fill(stateful_set, order, step, now, ordered=ordered):
        return step
    if not _shrink(stateful_set, order, step, now, ordered=ordered):
        return step
    if stateful_set.spec.update_strategy.get("type") == "OnDelete":
        return step
    return _roll(stateful_set, order, step, update, now)


def _fill(
    stateful_set: StatefulSet, order: _Order, step: OrdinalPlan, now: datetime, *, ordered: bool
) -> bool:
    """Have every pod there and available; whether to go on."""
    start = start_of(stateful_set)
    rolling = stateful_set.spec.update_strategy.get("rollingUpdate")
    current_count = stateful_set.status.current_replicas if rolling is None else rolling.get("partition", 0)
    if stateful_set.spec.update_strategy.get("type") == "OnDelete":
        current_count = 0
    for place, pod in enumerate(order.replicas):
        if pod is None:
            step.make.append((start + place, place >= current_count))
        elif pod.status.phase in ("Failed", "Succeeded"):
            if pod.metadata.deletion_timestamp is None:
                step.delete.append(pod)
        else:
            if pod.status.phase == "Pending":
                step.lacking.append(pod)
            waits = _waits(pod, stateful_set, now)
            if not ordered or not waits:
                step.owning.append(pod)
            if not waits:
                continue
        if ordered:
            return False
    step.owning.extend(order.condemned)
    return True


def _shrink(
    stateful_set: StatefulSet, order: _Order, step: OrdinalPlan, now: datetime, *, ordered: bool
) -> bool:
    """Delete pods that are too many, the last first; whether to go on."""
    # No replica is unavailable where it is asked for in order, so the first one that is stands among these.
    sick = [pod for pod in reversed(order.condemned) if _waits(pod, stateful_set, now)]
    for pod in order.condemned:
        if pod.metadata.deletion_timestamp is not None:
            if ordered:
                return False
            continue
        if ordered and _waits(pod, stateful_set, now) and pod is not sick[0]:
            return False
        step.delete.append(pod)
        if ordered:
            return False
    return True


def _roll(
    stateful_set: StatefulSet, order: _Order, step: OrdinalPlan, update: str, now: datetime
) -> OrdinalPlan:
    """Delete the last pod that is of another revision, once those after it are available."""
    partition = (stateful_set.spec.update_strategy.get("rollingUpdate") or {}).get("partition", 0)
    for pod in reversed(order.replicas[partition:]):
        if pod is None:
            return step
        if revision_of(pod) != update and pod.metadata.deletion_timestamp is None:
            return replace(step, delete=[*step.delete, pod], updates=1)
        if _waits(pod, stateful_set, now):
            return step
    return step


def status_of(
    stateful_set: StatefulSet, pods: list[Pod], current: str, update: str, now: datetime
) -> StatefulSetStatus:
    """The status before anything is done."""
    spec = stateful_set.spec
    own = [pod for pod in pods if ordinal_of(pod, stateful_set) is not None]
    living = [pod for pod in own if pod.metadata.deletion_timestamp is None]
    ready = [pod for pod in own if pod.status.phase == "Running" and is_ready(pod)]
    return StatefulSetStatus(
        observed_generation=stateful_set.metadata.generation,
        replicas=len(own),
        ready_replicas=len(ready),
        available_replicas=sum(available_in_s(pod, spec.min_ready_seconds, now) == 0 for pod in ready),
        current_replicas=sum(revision_of(pod) == current for pod in living),
        updated_replicas=sum(revision_of(pod) == update for pod in living),
        current_revision=current,
        update_revision=update,
        collision_count=stateful_set.status.collision_count or 0,
        conditions=stateful_set.status.conditions,
    )


def complete(stateful_set: StatefulSet, status: StatefulSetStatus) -> None:
    """End a rolling update of which nothing is left to do."""
    replicas = stateful_set.spec.replicas
    rolling = stateful_set.spec.update_strategy.get("type") == "RollingUpdate"
    if rolling and status.updated_replicas == status.ready_replicas == status.replicas == replicas:
        status.current_replicas = status.updated_replicas
        status.current_revision = status.update_revision
