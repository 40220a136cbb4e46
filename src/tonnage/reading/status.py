"""A pod's status as a model value: what the cluster says of the pod and of its containers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tonnage.model.kubernetes.cluster import ContainerEnd, ContainerWait, HeldAmounts, PodStatus
from tonnage.reading.object_parts import moment
from tonnage.wire import objects as w


def pod_status_from(
    status: w.PodStatus, deleted: str | None, resized: tuple[HeldAmounts, ...] = ()
) -> PodStatus:
    """What the cluster says about a pod; `deleted` is its deletionTimestamp."""
    scheduled = next((c for c in status.conditions if c.type == "PodScheduled"), None)
    disrupted = next((c for c in status.conditions if c.type == "DisruptionTarget"), None)
    resize = next((c for c in status.conditions if c.type == "PodResizePending"), None)
    containers = [*status.init_container_statuses, *status.container_statuses]
    return PodStatus(
        phase=status.phase or "Pending",
        reason=status.reason,
        message=status.message,
        start=moment(status.start_time),
        nominated_node=status.nominated_node_name,
        unschedulable_reason=scheduled.reason if scheduled and scheduled.status == "False" else "",
        unschedulable_message=scheduled.message if scheduled and scheduled.status == "False" else "",
        terminating=deleted is not None,
        gone_by=moment(deleted),
        preempted=disrupted is not None
        and (disrupted.status, disrupted.reason) == ("True", "PreemptionByScheduler"),
        resized=resized,
        cannot_resize=resize is not None and resize.reason == "Infeasible",
        waiting=_waits(containers),
        ended=tuple(_ends(containers)),
    )


def _waits(statuses: Iterable[dict[str, Any]]) -> tuple[ContainerWait, ...]:
    waits: list[ContainerWait] = []
    for status in statuses:
        state = status.get("state")
        waiting = state.get("waiting") if isinstance(state, dict) else None
        if isinstance(waiting, dict):
            reason, message = str(waiting.get("reason", "")), str(waiting.get("message", ""))
            waits.append(ContainerWait(str(status.get("name", "")), reason, message))
    return tuple(waits)


def _ends(statuses: Iterable[dict[str, Any]]) -> Iterable[ContainerEnd]:
    """The end of a container that does not run: its state, or while it waits to start again, the last."""
    for status in statuses:
        state, before = status.get("state"), status.get("lastState")
        now = state if isinstance(state, dict) else {}
        ended = now.get("terminated")
        if not isinstance(ended, dict) and isinstance(now.get("waiting"), dict):
            ended = before.get("terminated") if isinstance(before, dict) else None
        if isinstance(ended, dict):
            code = ended.get("exitCode")
            yield ContainerEnd(
                str(status.get("name", "")),
                str(ended.get("reason", "")),
                str(ended.get("message", "")),
                code if isinstance(code, int) else 0,
            )
