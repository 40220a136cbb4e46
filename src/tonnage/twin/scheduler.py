"""The twin's scheduler: watches pods and nodes, asks the engine, binds, or says why not as upstream does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tonnage.adapters.informer import Delta, Informers, Key, following, key_of
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.reading import node_from, pod_from, snapshot_from
from tonnage.decide.cluster.claims.supply import gates_of
from tonnage.decide.cluster.filters import claims
from tonnage.decide.cluster.scheduling import Decision, schedule_on
from tonnage.decide.cluster.versions import profile_for
from tonnage.model.cluster import Pod, Snapshot
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.twin.controllers.writing import tell_of_pod
from tonnage.twin.scheduler_cache import SchedulerCache
from tonnage.twin.scheduler_claims import ClaimBinder, Grant
from tonnage.twin.scheduler_events import SeriesRecorder, Telling
from tonnage.twin.scheduler_hints import arrival_helps, claim_helps, end_helps, node_helps, refused_by
from tonnage.twin.scheduler_queue import SchedulingQueue
from tonnage.twin.scheduler_volumes import PLUGINS, Choice, VolumeBinder
from tonnage.wire import kinds
from tonnage.wire import objects as w
from tonnage.wire.claims import ResourceClaim
from tonnage.wire.timestamps import timestamp

NAME: Final = "default-scheduler"
_SCHEDULED: Final = Telling("Normal", "Scheduled", "Binding")
_FAILED: Final = Telling("Warning", "FailedScheduling", "Scheduling")
_NOTE_LIMIT: Final = 1024
_GATED: Final = "SchedulingGated"
_CUTS_SHORT: Final = 33
"""The first minor release that ends a back-off early when no other pod is ready."""
_LOG: Final = logging.getLogger(__name__)


class Scheduler:
    """Places the pods whose schedulerName is `default-scheduler`, one at a time, the most urgent first."""

    def __init__(
        self,
        api: KubernetesApi,
        clock: Clock,
        informers: Informers,
        *,
        version: str = "1.35",
        host: str = "control-plane",
    ) -> None:
        self._api = api
        self._clock = clock
        self._events = SeriesRecorder(api, clock, NAME, host)
        profile = profile_for(version)
        self._queue = SchedulingQueue(cuts_short=profile.minor >= _CUTS_SHORT)
        self._cache = SchedulerCache(profile)
        self._changed = asyncio.Event()
        self._pods = informers.of(kinds.POD)
        self._nodes = informers.of(kinds.NODE)
        self._namespaces = informers.of(kinds.NAMESPACE)
        self._budgets = informers.of(kinds.DISRUPTION_BUDGET)
        self._sets = informers.of(kinds.REPLICA_SET)
        self._services = informers.of(kinds.SERVICE)
        self._namespaces.subscribe(self._on_surroundings)
        self._sets.subscribe(self._on_surroundings)
        self._services.subscribe(self._on_surroundings)
        self._volumes = VolumeBinder(api, clock, informers, self._on_volume)
        gates = gates_of(profile.minor)
        self._claims = ClaimBinder(api, informers, gates, self._on_claim, self._on_devices)
        self._binding: asyncio.TaskGroup | None = None
        self._pods.subscribe(self._on_pod)
        self._nodes.subscribe(self._on_node)

    async def run(self) -> None:
        """Schedule until cancelled."""
        copies = (self._pods, self._nodes, self._namespaces, self._budgets, self._sets, self._services)
        async with following(*copies, *self._claims.copies, *self._volumes.copies) as group:
            self._binding = group
            group.create_task(self._events.run())
            while True:
                key = self._queue.pop(self._clock.monotonic())
                if key is None:
                    await self._rest()
                else:
                    await self._cycle(key)

    async def _rest(self) -> None:
        """Wait until something changes or the next pod's back-off ends."""
        self._changed.clear()
        due_s = self._queue.next_due_s()
        alarm = asyncio.create_task(self._ring(due_s)) if due_s is not None else None
        try:
            await self._changed.wait()
        finally:
            if alarm is not None:
                alarm.cancel()

    async def _ring(self, due_s: float) -> None:
        await self._clock.sleep(max(0.0, due_s - self._clock.monotonic()))
        self._changed.set()

    def _on_pod(self, delta: Delta[w.Pod]) -> None:
        obj = delta.after or delta.before
        if obj is None:
            return
        key = key_of(obj)
        told, before = self._cache.told(key), self._cache.pod(key)
        after = pod_from(obj) if delta.after is not None else None
        self._cache.set_pod(key, after)
        if after is not None and _waits(after):
            self._queue.add(key, after.priority)
            if told is not None and _spec(told) != _spec(after):
                self._queue.wake(key)
        else:
            self._queue.remove(key)
        if _frees(before, after):
            self._queue.wake_where(lambda _, plugins: end_helps(plugins))
        elif _arrives(told, after):
            self._queue.wake_where(lambda _, plugins: arrival_helps(plugins))
        self._changed.set()

    def _on_node(self, delta: Delta[w.Node]) -> None:
        obj = delta.after or delta.before
        if obj is None:
            return
        after = node_from(obj) if delta.after is not None else None
        before = self._cache.set_node(obj.metadata.name, after)

        def helps(key: Key, plugins: frozenset[str]) -> bool:
            pod = self._cache.pod(key)
            return pod is not None and node_helps(plugins, pod, before, after)

        self._queue.wake_where(helps)
        self._changed.set()

    def _on_volume(self) -> None:
        """Claims, volumes and classes bear on pods that have volumes."""

        def helps(key: Key, plugins: frozenset[str]) -> bool:
            pod = self._cache.pod(key)
            return pod is not None and bool(pod.volumes) and (not plugins or not PLUGINS.isdisjoint(plugins))

        self._queue.wake_where(helps)
        self._changed.set()

    def _on_devices(self) -> None:
        """Classes, slices and devices that are not taken after all bear on pods that have claims."""
        self._wake_claimants(lambda pod: bool(pod.claims))

    def _on_claim(self, delta: Delta[ResourceClaim]) -> None:
        self._wake_claimants(lambda pod: claim_helps(pod, delta.before, delta.after))

    def _wake_claimants(self, good_for: Callable[[Pod], bool]) -> None:
        def helps(key: Key, plugins: frozenset[str]) -> bool:
            pod = self._cache.pod(key)
            return pod is not None and (not plugins or claims.NAME in plugins) and good_for(pod)

        self._queue.wake_where(helps)
        self._changed.set()

    async def _cycle(self, key: Key) -> None:
        """Decide on one pod. What was decided counts before the first await, so that no change is missed."""
        pod, obj = self._cache.pod(key), self._pods.get(key[1], key[0])
        if pod is None or obj is None or not _waits(pod):
            self._queue.remove(key)
            return
        placed = self._cache.place(pod, self._surroundings)
        if placed is not None:
            self._queue.remove(key)
            await self._bind_alone(pod, obj, placed)
            return
        allocator = self._claims.allocator() if pod.claims else None
        view = self._cache.view(self._surroundings(volumes=bool(pod.volumes)), allocator)
        decision = schedule_on(pod, view, binds=True)
        if decision.held:
            self._queue.fail(key, self._clock.monotonic(), frozenset((claims.NAME,)))
            return
        if decision.chosen is not None:
            self._queue.remove(key)
            self._cache.assume(pod, decision.chosen)
            node = view.nodes[decision.chosen].node
            choices = self._volumes.choose(pod, node, view.snapshot) if pod.volumes else ()
            if choices is None:
                self._give_up(pod)
            elif (choices or pod.claims) and self._binding is not None:
                grants = self._claims.choose(pod, node, view)
                self._binding.create_task(self._bind_with(choices, grants, pod, obj, decision.chosen))
            else:
                await self._bind_alone(pod, obj, decision.chosen)
            return
        self._queue.fail(key, self._clock.monotonic(), refused_by(decision))
        nominated = pod.status.nominated_node if decision.keeps_nomination else decision.nominated or ""
        if nominated != pod.status.nominated_node:
            self._cache.nominate(pod, nominated)
        await self._free(pod, decision)
        try:
            await self._evict(pod, decision)
            await self._tell_refusal(pod, obj, decision, nominated)
        except ClusterError as error:
            _LOG.warning("refusal not written: pod=%s/%s error=%s", *key, error)

    def _on_surroundings(self, delta: Delta[w.Namespace] | Delta[w.ReplicaSet] | Delta[w.Service]) -> None:
        if _judged_by(delta.before) != _judged_by(delta.after):
            self._cache.changed()

    async def _free(self, pod: Pod, decision: Decision) -> None:
        """Take a claim its devices, where that was decided; when it fails, the pod is tried again soon."""
        if decision.frees is None:
            return
        try:
            await self._claims.free(decision.frees)
        except ClusterError as error:
            _LOG.warning("claim not freed: pod=%s/%s claim=%s error=%s", *pod.key, decision.frees, error)
            self._queue.err(pod.key, self._clock.monotonic())
            self._changed.set()

    def _surroundings(self, *, volumes: bool = False) -> Snapshot:
        others = self._volumes.surroundings() if volumes else ()
        return snapshot_from([*self._namespaces, *self._budgets, *self._sets, *self._services, *others])

    async def _bind_with(
        self, choices: tuple[Choice, ...], grants: tuple[Grant, ...], pod: Pod, obj: w.Pod, node: str
    ) -> None:
        """Bind the pod once its volumes and claims are; others are scheduled meanwhile."""

        def stands() -> bool:
            told = self._cache.told(pod.key)
            return told is not None and told.uid == pod.uid and _waits(told)

        try:
            await tell_of_pod(self._api, obj, {"nominatedNodeName": node})
            if not choices or await self._volumes.bind(choices, node, stands):
                await self._claims.bind(grants, pod)
                if await self._bind(pod, obj, node):
                    return
        except ClusterError as error:
            _LOG.warning("volumes and claims not bound: pod=%s/%s node=%s error=%s", *pod.key, node, error)
        await self._claims.release(grants, pod)
        if stands():
            self._give_up(pod)

    async def _bind_alone(self, pod: Pod, obj: w.Pod, node: str) -> None:
        """Bind a pod for which nothing else has to be bound."""
        if not await self._bind(pod, obj, node):
            self._give_up(pod)

    async def _bind(self, pod: Pod, obj: w.Pod, node: str) -> bool:
        """Whether the pod is bound now."""
        body: JsonObject = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._api.create_subresource(kinds.POD, pod.name, "binding", body, namespace=pod.namespace)
        except ClusterError as error:
            _LOG.warning("pod not bound: pod=%s/%s node=%s error=%s", *pod.key, node, error)
            return False
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        _LOG.info("pod bound: pod=%s/%s node=%s", *pod.key, node)
        await self._events.emit(obj, _SCHEDULED, message)
        return True

    def _give_up(self, pod: Pod) -> None:
        """What was decided about a pod came to nothing: it is tried again after a while."""
        self._cache.forget(pod.key)
        self._queue.wake_where(lambda _, plugins: end_helps(plugins))
        current = self._cache.pod(pod.key)
        if current is not None and _waits(current):
            self._queue.add(pod.key, pod.priority)
            self._queue.err(pod.key, self._clock.monotonic())

    async def _evict(self, pod: Pod, decision: Decision) -> None:
        """Ask the victims to go, and take the node away from lesser pods that were promised it."""
        node = decision.nominated
        if node is None:
            return
        for victim in decision.victims:
            obj = self._pods.get(victim.name, victim.namespace)
            if obj is None or victim.status.terminating:
                continue
            _LOG.info("pod preempted: pod=%s/%s by=%s/%s node=%s", *victim.key, *pod.key, node)
            try:
                await self._doom(obj)
            except ApiError as error:
                if error.code != 404:
                    raise
                continue
            preempted = Telling("Normal", "Preempted", "Preempting", self._pods.get(pod.name, pod.namespace))
            await self._events.emit(obj, preempted, f"Preempted by pod {pod.uid} on node {node}")
        for lesser in self._cache.nominated_to(node):
            if lesser.priority < pod.priority:
                self._cache.nominate(lesser, "")
                if (told := self._pods.get(lesser.name, lesser.namespace)) is not None:
                    await tell_of_pod(self._api, told, {"nominatedNodeName": None})

    async def _doom(self, victim: w.Pod) -> None:
        target: JsonObject = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{NAME}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": timestamp(self._clock.now()),
        }
        await tell_of_pod(self._api, victim, {"conditions": [target]})
        head = victim.metadata
        await self._api.delete(kinds.POD, head.name, namespace=head.namespace, uid=head.uid)

    async def _tell_refusal(self, pod: Pod, obj: w.Pod, decision: Decision, nominated: str) -> None:
        """The condition PodScheduled where it changed, and an Event for every attempt but a gated one."""
        reason, message = _condition_of(decision)
        status: JsonObject = {}
        standing = next((c for c in obj.status.conditions if c.type == "PodScheduled"), None)
        if decision.gates and standing is not None and standing.reason == _GATED:
            return  # the API server has said so already
        if standing is None or (standing.status, standing.reason, standing.message) != (
            "False",
            reason,
            message,
        ):
            since = standing.last_transition_time if standing and standing.status == "False" else None
            condition: JsonObject = {
                "type": "PodScheduled",
                "status": "False",
                "reason": reason,
                "message": message,
                "lastTransitionTime": since or timestamp(self._clock.now()),
            }
            if obj.metadata.generation:
                condition["observedGeneration"] = obj.metadata.generation
            status["conditions"] = [condition]
        if nominated != obj.status.nominated_node_name:
            status["nominatedNodeName"] = nominated or None
        if status:
            await tell_of_pod(self._api, obj, status)
        if not decision.gates:
            await self._events.emit(obj, _FAILED, _note(message))


def _judged_by(obj: w.Object | None) -> object:
    """What of an object around pods and nodes bears on decisions, and changes seldom."""
    if isinstance(obj, w.Workload | w.Service):
        return obj.spec
    return obj.metadata.labels if obj is not None else None


def _waits(pod: Pod) -> bool:
    """Whether the pod is this scheduler's to place."""
    free = not pod.node_name and not pod.finished and not pod.status.terminating
    return free and pod.scheduler_name == NAME


def _spec(pod: Pod) -> Pod:
    """The pod without what the cluster says about it."""
    return replace(pod, status=type(pod.status)())


def _frees(before: Pod | None, after: Pod | None) -> bool:
    """Whether a pod that held something on a node, or waited for one to be cleared, is gone."""
    held = before is not None and (before.node_name or before.status.nominated_node) and not before.finished
    return bool(held and (after is None or after.finished))


def _arrives(before: Pod | None, after: Pod | None) -> bool:
    """Whether a pod has come to a node, or changed its labels there."""
    if after is None or not after.node_name or after.finished:
        return False
    return before is None or not before.node_name or before.labels != after.labels


def _condition_of(decision: Decision) -> tuple[str, str]:
    if decision.gates:
        return _GATED, decision.message
    if decision.unmodelled:
        return "SchedulerError", f"this twin does not place pods with {', '.join(decision.unmodelled)}"
    return "Unschedulable", decision.message


def _note(message: str) -> str:
    """A message as an Event can hold it."""
    return message if len(message) <= _NOTE_LIMIT else f"{message[: _NOTE_LIMIT - 4]} ..."
