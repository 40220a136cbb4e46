"""Pods that the controller runs once at nodes: how they are seen, and taken away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from tonnage.controller.context import ControllerContext
from tonnage.decide.cluster.operate.node_pod import OF_NODE, SeenPod
from tonnage.loop.informer import Delta, Informer
from tonnage.loop.refusals import passing_over
from tonnage.model.actions.cluster import DeleteObject
from tonnage.reading.object_parts import moment
from tonnage.wire.kinds import POD
from tonnage.wire.objects import Pod

MOST_PODS: Final = 50
"""Of one app at one time: more would fill the scheduler's queue."""


def tell_nodes(pods: Informer[Pod], app: str, changed: Callable[[str], None]) -> None:
    """Have `changed` called with the node whose pod of that app changed."""

    def on_change(change: Delta[Pod]) -> None:
        pod = change.after or change.before
        if pod is not None and pod.metadata.labels.get("app") == app:
            changed(pod.metadata.annotations.get(OF_NODE, ""))

    pods.subscribe(on_change)


def is_full(pods: Iterable[Pod], app: str) -> bool:
    """Whether as many pods of that app are there as may be."""
    return sum(pod.metadata.labels.get("app") == app for pod in pods) >= MOST_PODS


async def delete_pod(context: ControllerContext, pod: SeenPod) -> None:
    """Take it away, unless it is gone."""
    gone = DeleteObject("Pod", pod.name, pod.uid, context.operator_namespace)
    with passing_over(404):
        reading = context.api.get(POD, pod.name, context.operator_namespace)
        _, sight = await context.performer.look(gone.subject, reading)
        await context.performer.perform(gone, sight)


def seen_pod(pod: Pod | None) -> SeenPod | None:
    """The pod as a value."""
    if pod is None:
        return None
    states: list[dict[str, Any]] = [status.get("state") or {} for status in pod.status.container_statuses]
    ended: dict[str, Any] = next((state["terminated"] for state in states if "terminated" in state), {})
    waiting: dict[str, Any] = next((state["waiting"] for state in states if "waiting" in state), {})
    message = str(ended.get("message") or "").strip() or pod.status.message
    if not pod.spec.node_name:
        message = message or next((c.message for c in pod.status.conditions if c.type == "PodScheduled"), "")
    return SeenPod(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        created=moment(pod.metadata.creation_timestamp),
        code=int(ended.get("exitCode", 1)) if ended else None,
        ended=pod.status.phase in ("Succeeded", "Failed"),
        scheduled=bool(pod.spec.node_name),
        message=message or str(waiting.get("message") or waiting.get("reason") or ""),
    )
