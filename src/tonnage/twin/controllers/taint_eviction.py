"""The taint eviction controller: pods leave nodes whose NoExecute taints they do not tolerate (any longer).

Source: k8s.io/kubernetes/pkg/controller/tainteviction (v1.35).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tonnage.adapters.events import EventRecorder
from tonnage.adapters.informer import Delta, Informers, Key, following, key_of
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.decide.cluster.matching import tolerates
from tonnage.model.json import JsonObject
from tonnage.twin.controllers.refusals import passing_over
from tonnage.twin.controllers.writing import tell_of_pod
from tonnage.wire.kinds import NODE, POD
from tonnage.wire.objects import Node, ObjectReference, Pod, Taint, Toleration
from tonnage.wire.timestamps import moment_of, timestamp

_FOREVER: Final = float("inf")


def eviction_in_s(taints: list[Taint], tolerations: list[Toleration], now: datetime) -> float:
    """Seconds until a pod must go: 0 now, infinity never. A toleration's time runs from the taint's.

    A taint without a time (one that a person set) counts from `now`: remember the first answer.
    """
    left_s = _FOREVER
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        matching = [toleration for toleration in tolerations if tolerates(toleration, taint)]
        if not matching:
            return 0.0
        allowed = [t.toleration_seconds for t in matching if t.toleration_seconds is not None]
        if allowed:
            since_s = (now - moment_of(taint.time_added)).total_seconds() if taint.time_added else 0.0
            left_s = min(left_s, max(max(min(allowed), 0) - since_s, 0.0))
    return left_s


class TaintEvictionController:
    """Evicts by taints."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._clock = clock
        self._events = EventRecorder(api, clock, "taint-eviction-controller")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._nodes = informers.of(NODE)
        self._nodes.subscribe(self._node_changed)
        self._pods = informers.of(POD, self._queue.add)
        self._pods.add_index("node", lambda pod: [pod.spec.node_name])
        self._due_s: dict[str, tuple[tuple[str, ...], float]] = {}
        """By pod uid: the taints that were answered for, and when the pod has to go."""
        self._pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        """Evict until cancelled."""
        async with following(self._nodes, self._pods) as group:
            group.create_task(work(self._queue, self._reconcile, workers=4))

    def _node_changed(self, delta: Delta[Node]) -> None:
        before = delta.before.spec.taints if delta.before is not None else []
        after = delta.after.spec.taints if delta.after is not None else []
        node = delta.after or delta.before
        if node is not None and before != after:
            for pod in self._pods.by_index("node", node.metadata.name):
                self._queue.add(key_of(pod))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        if delta.after is None and delta.before is not None:
            self._due_s.pop(delta.before.metadata.uid, None)

    async def _reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(key[1], key[0])
        if pod is None or not pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
            return None
        node = self._nodes.get(pod.spec.node_name)
        taints = [t for t in node.spec.taints if t.effect == "NoExecute"] if node is not None else []
        left_s = self._left_s(pod, taints)
        if left_s == _FOREVER:
            if self._due_s.pop(pod.metadata.uid, None) is not None:
                text = f"Cancelling deletion of Pod {pod.metadata.namespace}/{pod.metadata.name}"
                await self._tell(pod, text)
            return None
        if left_s > 0:
            return left_s
        await self._evict(pod)
        return None

    def _left_s(self, pod: Pod, taints: list[Taint]) -> float:
        if not taints:
            return _FOREVER
        left_s = eviction_in_s(taints, pod.spec.tolerations, self._clock.now())
        if left_s == _FOREVER:
            return left_s
        seen = tuple(sorted(f"{t.key}={t.value}/{t.time_added}" for t in taints))
        known = self._due_s.get(pod.metadata.uid)
        now_s = self._clock.monotonic()
        if known is None or known[0] != seen:
            known = self._due_s[pod.metadata.uid] = (seen, now_s + left_s)
        return max(known[1] - now_s, 0.0)

    async def _evict(self, pod: Pod) -> None:
        text = f"Marking for deletion Pod {pod.metadata.namespace}/{pod.metadata.name}"
        await self._tell(pod, text)
        await disrupt(
            self._api,
            self._clock,
            pod,
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
        )
        with passing_over(404, 409):
            await self._api.delete(
                POD, pod.metadata.name, namespace=pod.metadata.namespace, uid=pod.metadata.uid
            )
        self._due_s.pop(pod.metadata.uid, None)

    async def _tell(self, pod: Pod, text: str) -> None:
        """An Event about the pod's name: this controller gives no uid."""
        metadata = pod.metadata
        named = ObjectReference(
            api_version="v1", kind=POD.kind, name=metadata.name, namespace=metadata.namespace
        )
        await self._events.emit(named, "Normal", "TaintManagerEviction", text)


async def disrupt(
    api: KubernetesApi, clock: Clock, pod: Pod, reason: str, message: str, *, fail: bool = False
) -> None:
    """Give the pod its DisruptionTarget condition, and the phase Failed if asked to, unless it is gone."""
    condition: JsonObject = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(clock.now()),
    }
    status: JsonObject = {"conditions": [condition]}
    if generation := pod.metadata.generation:
        condition["observedGeneration"] = generation
    if fail:
        status |= {"phase": "Failed", **({"observedGeneration": generation} if generation else {})}
    await tell_of_pod(api, pod, status)
