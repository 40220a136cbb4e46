"""The pod garbage collector: pods of nodes that are gone, and deleted pods that no node will ever end.

Source: k8s.io/kubernetes/pkg/controller/podgc (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.adapters.informer import Delta, Informers, Key, following, key_of
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.twin.controllers.refusals import or_none, passing_over
from tonnage.twin.controllers.taint_eviction import disrupt
from tonnage.wire.kinds import NODE, POD
from tonnage.wire.objects import Node, Pod

QUARANTINE_S: Final = 40.0
"""How long a node must be missing before its pods are given up: it may only be late in the copy."""


class PodGarbageController:
    """Deletes pods by force that nobody else will."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._nodes = informers.of(NODE)
        self._nodes.subscribe(self._node_changed)
        self._pods = informers.of(POD, self._queue.add)
        self._pods.add_index("node", lambda pod: [pod.spec.node_name])
        self._missing_s: dict[str, float] = {}
        """Since when a node that pods are bound to has been missing."""

    async def run(self) -> None:
        """Collect until cancelled."""
        async with following(self._nodes, self._pods) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _node_changed(self, delta: Delta[Node]) -> None:
        node = delta.after or delta.before
        if node is None or (delta.before is not None and delta.after is not None):
            return
        if delta.after is not None:
            self._missing_s.pop(node.metadata.name, None)
        for pod in self._pods.by_index("node", node.metadata.name):
            self._queue.add(key_of(pod))

    async def _reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(key[1], key[0])
        if pod is None:
            return None
        name = pod.spec.node_name
        if not name:
            if pod.metadata.deletion_timestamp is not None:
                await self._delete(pod)
            return None
        if self._nodes.get(name) is not None:
            return None
        now_s = self._clock.monotonic()
        left_s = self._missing_s.setdefault(name, now_s) + QUARANTINE_S - now_s
        if left_s > 0:
            return left_s
        if await or_none(self._api.get(NODE, name)) is not None:
            return QUARANTINE_S
        finished = pod.status.phase in ("Succeeded", "Failed")
        text = "PodGC: node no longer exists"
        await disrupt(self._api, self._clock, pod, "DeletionByPodGC", text, fail=not finished)
        await self._delete(pod)
        if len(self._pods.by_index("node", name)) <= 1:
            self._missing_s.pop(name, None)
        return None

    async def _delete(self, pod: Pod) -> None:
        with passing_over(404, 409):
            await self._api.delete(
                POD,
                pod.metadata.name,
                namespace=pod.metadata.namespace,
                grace_period_s=0,
                uid=pod.metadata.uid,
            )
