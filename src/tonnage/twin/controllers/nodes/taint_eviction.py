"""tainteviction.Controller: pods leave nodes whose NoExecute taints they do not (or no longer) tolerate.

Source: k8s.io/kubernetes/pkg/controller/tainteviction (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.matching import tolerates
from tonnage.loop.events import recorder_over
from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.refusals import passing_over
from tonnage.loop.status_writes import tell_of_pod
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import NODE, POD
from tonnage.wire.objects import Node, ObjectReference, Pod, Taint, Toleration

_FOREVER: Final = float("inf")


def eviction_in_s(taints: list[Taint], tolerations: list[Toleration]) -> float:
    """Seconds that a pod may stay beside these taints: 0 if it must go now, infinity if it need not."""
    left_s = _FOREVER
    for taint in taints:
        matching = [toleration for toleration in tolerations if tolerates(toleration, taint)]
        if not matching:
            return 0.0
        allowed = [t.toleration_seconds for t in matching if t.toleration_seconds is not None]
        left_s = min([left_s, *(max(float(seconds), 0.0) for seconds in allowed)])
    return left_s


class TaintEvictionController:
    """Evicts by taints."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._clock = clock
        self._events = recorder_over(api, clock, "taint-eviction-controller")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._nodes = informers.of(NODE)
        self._nodes.subscribe(self._node_changed)
        self._pods = informers.of(POD)
        self._pods.add_index("node", lambda pod: [pod.spec.node_name])
        self._pods.subscribe(self._pod_changed)
        self._judged: set[Key] = set()
        """Pods whose taints or tolerations are others than before."""
        self._due_s: dict[Key, float] = {}
        """When pods that may stay for a while have to go. Other taints change nothing: they may only be gone,
        or be such as the pod does not tolerate."""

    async def run(self) -> None:
        """Evict until cancelled."""
        async with following(self._nodes, self._pods) as group:
            group.create_task(work(self._queue, self._reconcile, workers=4))

    def _node_changed(self, delta: Delta[Node]) -> None:
        before, after = _evicting(delta.before), _evicting(delta.after)
        if delta.after is not None and before != after:
            for pod in self._pods.by_index("node", delta.after.metadata.name):
                self._judge(key_of(pod))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        before, after = delta.before, delta.after
        if after is None or before is None or _stand(before) != _stand(after):
            pod = after or before
            if pod is not None and (key_of(pod) in self._due_s or self._taints_of(pod)):
                self._judge(key_of(pod))

    def _judge(self, key: Key) -> None:
        self._judged.add(key)
        self._queue.add(key)

    def _taints_of(self, pod: Pod) -> list[Taint]:
        return _evicting(self._nodes.get(pod.spec.node_name)) if pod.spec.node_name else []

    async def _reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(key[1], key[0])
        now_s = self._clock.monotonic()
        if key in self._judged:
            self._judged.discard(key)
            left_s = _FOREVER if pod is None else eviction_in_s(self._taints_of(pod), pod.spec.tolerations)
            if left_s in (0.0, _FOREVER) and self._due_s.pop(key, None) is not None:
                await self._tell(key, "Cancelling deletion of")
            if left_s != _FOREVER:
                self._due_s.setdefault(key, now_s + left_s)
        due_s = self._due_s.get(key)
        if pod is None or due_s is None:
            return None
        if due_s > now_s:
            return due_s - now_s
        del self._due_s[key]
        await self._evict(key, pod)
        return None

    async def _evict(self, key: Key, pod: Pod) -> None:
        await self._tell(key, "Marking for deletion")
        why = "Taint manager: deleting due to NoExecute taint"
        await disrupt(self._api, self._clock, pod, "DeletionByTaintManager", why)
        with passing_over(404, 409):
            await self._api.delete(POD, key[1], namespace=key[0], uid=pod.metadata.uid)

    async def _tell(self, key: Key, action: str) -> None:
        """An Event about the pod's name: this controller gives no uid."""
        named = ObjectReference(api_version="v1", kind=POD.kind, name=key[1], namespace=key[0])
        await self._events.emit(named, "Normal", "TaintManagerEviction", f"{action} Pod {key[0]}/{key[1]}")


def _evicting(node: Node | None) -> list[Taint]:
    return [taint for taint in node.spec.taints if taint.effect == "NoExecute"] if node is not None else []


def _stand(pod: Pod) -> tuple[str, list[Toleration]]:
    """What counts of a pod."""
    return pod.spec.node_name, pod.spec.tolerations


async def disrupt(api: KubernetesApi, clock: Clock, pod: Pod, reason: str, message: str) -> None:
    """Give the pod its DisruptionTarget condition, unless it is gone."""
    await tell_of_pod(api, pod, {"conditions": [disruption(clock, pod, reason, message)]})


def disruption(clock: Clock, pod: Pod, reason: str, message: str) -> JsonObject:
    """The condition of a pod that is to be disrupted."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(clock.now()),
        **({"observedGeneration": pod.metadata.generation} if pod.metadata.generation else {}),
    }
