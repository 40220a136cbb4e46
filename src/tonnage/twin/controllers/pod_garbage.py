"""PodGCController: pods of nodes that are gone or out of service, pods that no node will ever end,
and the oldest of those that have ended, beyond some thousands.

Source: k8s.io/kubernetes/pkg/controller/podgc (v1.35).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.refusals import or_none, passing_over
from tonnage.loop.status_writes import tell_of_pod
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import moment_of
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.controllers.nodes.health import ready_status
from tonnage.twin.controllers.nodes.taint_eviction import disruption
from tonnage.wire.kinds import NODE, POD
from tonnage.wire.objects import Node, Pod

QUARANTINE_S: Final = 40.0
"""How long a node must be missing before its pods are given up: it may only be late in the copy."""
_SWEEP_S: Final = 20.0
"""So often a genuine collector looks; whoever holds a pod has that long to let it go."""
_THRESHOLD: Final = 12_500
"""So many ended pods are kept."""
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_ENDED: Final = ("Succeeded", "Failed")
_ALL: Final[Key] = ("", "")
"""Stands for the ended pods as a whole."""


class PodGarbageController:
    """Deletes pods by force that nobody else will."""

    def __init__(
        self, api: KubernetesApi, clock: Clock, informers: Informers, *, limit: int = _THRESHOLD
    ) -> None:
        self._api = api
        self._clock = clock
        self._limit = limit
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._nodes = informers.of(NODE)
        self._nodes.subscribe(self._node_changed)
        self._pods = informers.of(POD, self._queue.add)
        self._pods.add_index("node", lambda pod: [pod.spec.node_name])
        self._pods.subscribe(self._pod_changed)
        self._ended: set[Key] = set()
        self._missing_s: dict[str, float] = {}
        """Since when a node that pods are bound to has been missing."""

    async def run(self) -> None:
        """Collect until cancelled."""
        async with following(self._nodes, self._pods) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _node_changed(self, delta: Delta[Node]) -> None:
        before, after = delta.before, delta.after
        same = before is not None and after is not None and _out_of_service(before) == _out_of_service(after)
        node = after or before
        if node is None or same:
            return
        if after is not None:
            self._missing_s.pop(node.metadata.name, None)
        for pod in self._pods.by_index("node", node.metadata.name):
            self._queue.add(key_of(pod))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        if delta.after is not None and delta.after.status.phase in _ENDED:
            self._ended.add(key_of(delta.after))
            if len(self._ended) > self._limit:
                self._queue.add(_ALL)
        elif delta.before is not None:
            self._ended.discard(key_of(delta.before))

    async def _reconcile(self, key: Key) -> float | None:
        if key == _ALL:
            await self._thin_out()
            return None
        pod = self._pods.get(key[1], key[0])
        if pod is None:
            return None
        name, ends = pod.spec.node_name, pod.metadata.deletion_timestamp
        if not name:
            return await self._sweep(pod, moment_of(ends)) if ends is not None else None
        node = self._nodes.get(name)
        if node is not None:
            if ends is not None and _out_of_service(node):
                await self._end(pod)
            return None
        now_s = self._clock.monotonic()
        left_s = self._missing_s.setdefault(name, now_s) + QUARANTINE_S - now_s
        if left_s > 0:
            return left_s
        if await or_none(self._api.get(NODE, name)) is not None:
            return QUARANTINE_S
        why = "PodGC: node no longer exists"
        await self._end(pod, disruption(self._clock, pod, "DeletionByPodGC", why))
        if len(self._pods.by_index("node", name)) <= 1:
            self._missing_s.pop(name, None)
        return None

    async def _sweep(self, pod: Pod, ends: datetime) -> float | None:
        """End a pod without a node that somebody holds; the seconds until then."""
        left_s = _SWEEP_S - (self._clock.now() - ends).total_seconds()
        if left_s > 0:
            return left_s
        await self._end(pod)
        return None

    async def _thin_out(self) -> None:
        """Delete ended pods that are too many: those that were evicted first, then the oldest."""
        pods = (self._pods.get(name, namespace) for namespace, name in self._ended)
        ended = sorted((pod for pod in pods if pod is not None), key=_precedence)
        for pod in ended[: max(len(ended) - self._limit, 0)]:
            await self._end(pod)

    async def _end(self, pod: Pod, condition: JsonObject | None = None) -> None:
        """Say of a pod that has not ended that it failed, and delete it by force."""
        if pod.status.phase not in _ENDED:
            status: JsonObject = {"phase": "Failed"}
            if condition is not None:
                status["conditions"] = [condition]
            if pod.metadata.generation:
                status["observedGeneration"] = pod.metadata.generation
            await tell_of_pod(self._api, pod, status)
        name, namespace, uid = pod.metadata.name, pod.metadata.namespace, pod.metadata.uid
        with passing_over(404, 409):
            await self._api.delete(POD, name, namespace=namespace, grace_period_s=0, uid=uid)


def _out_of_service(node: Node) -> bool:
    """Whether somebody says of a node that is not ready that it will not come back by itself."""
    marked = any(taint.key == _OUT_OF_SERVICE for taint in node.spec.taints)
    return marked and ready_status(node) != "True"


def _precedence(pod: Pod) -> tuple[bool, str, str]:
    evicted = pod.status.phase == "Failed" and pod.status.reason == "Evicted"
    return not evicted, pod.metadata.creation_timestamp or "", pod.metadata.name
