"""Pods that the controller runs once at nodes: how they are seen, and taken away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tonnage.controller.context import ControllerContext
from tonnage.decide.cluster.operate.node_pod import OF_NODE, OF_SUBJECT, USERS, SeenPod, pod_name
from tonnage.loop.informer import Delta, Informer
from tonnage.loop.refusals import passing_over
from tonnage.model.actions.cluster import ApplyObject, DeleteObject
from tonnage.model.json import JsonObject
from tonnage.model.validation import FAILED
from tonnage.reading.object_parts import moment
from tonnage.wire.kinds import POD
from tonnage.wire.objects import Pod

MOST_PODS: Final = 50
"""Of one app at one time: more would fill the scheduler's queue."""


class PodPlaces:
    """The pods of one app, as many at one time as may be: a node that finds no place is called to the next.

    `look` is called with a node whose pod changed, or for which there is a place by now.
    """

    def __init__(
        self, context: ControllerContext, pods: Informer[Pod], app: str, look: Callable[[str], None]
    ) -> None:
        self._context = context
        self._pods = pods
        self._app = app
        self._look = look
        self._there: set[str] = set()
        self._made: set[str] = set()
        """Nodes whose pod the copy does not show yet."""
        self._called: set[str] = set()
        """Nodes that are to take a place, or are about to."""
        self._waiting: dict[str, None] = {}
        pods.subscribe(self._pod_changed)

    @contextmanager
    def turn(self, node: str) -> Iterator[None]:
        """While the node is looked at. A place that it was called to and does not take goes to the next."""
        self._waiting.pop(node, None)
        self._made.discard(node)
        try:
            yield
        finally:
            self._called.discard(node)
            self._call()

    def pod_of(self, node: str) -> SeenPod | None:
        """The node's pod, as the copy has it."""
        return seen_pod(self._pods.get(pod_name(self._app, node), self._context.operator_namespace))

    def has_place(self, node: str) -> bool:
        """Whether the node may make its pod in this turn; else it is called later."""
        if node in self._called or self._is_room():
            self._called.add(node)  # other nodes are looked at while its pod is made
            return True
        self._waiting[node] = None
        return False

    async def make(self, node: str, body: JsonObject) -> None:
        """Make the node's pod. Raises ClusterError."""
        if await self._context.performer.perform(ApplyObject.of(body)):
            self._made.add(node)

    def _is_room(self) -> bool:
        return len(self._there) + len(self._made) + len(self._called) < MOST_PODS

    def _call(self) -> None:
        while self._waiting and self._is_room():
            node = next(iter(self._waiting))
            del self._waiting[node]
            self._called.add(node)
            self._look(node)

    def _pod_changed(self, change: Delta[Pod]) -> None:
        pod = change.after or change.before
        if pod is None or pod.metadata.labels.get("app") != self._app:
            return
        node = pod.metadata.annotations.get(OF_NODE, "")
        self._made.discard(node)
        if change.after is not None:
            self._there.add(pod.metadata.name)
        else:
            self._there.discard(pod.metadata.name)
            self._call()
        self._look(node)


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
    users = any(status.get("name") == USERS for status in pod.status.container_statuses)
    code = int(ended.get("exitCode", FAILED)) if ended else None
    message = str(ended.get("message") or "").strip() or pod.status.message
    if not pod.spec.node_name:
        message = message or next((c.message for c in pod.status.conditions if c.type == "PodScheduled"), "")
    return SeenPod(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        created=moment(pod.metadata.creation_timestamp),
        code=FAILED if users and code else code,  # what else it may say by a number is not ours
        ended=pod.status.phase in ("Succeeded", "Failed"),
        scheduled=bool(pod.spec.node_name),
        message=message or str(waiting.get("message") or waiting.get("reason") or ""),
        subject=pod.metadata.annotations.get(OF_SUBJECT, ""),
    )
