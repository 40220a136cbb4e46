"""ScheduleOne: watches pods and nodes, asks the engine, binds, or says why not as upstream does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import chain
from typing import Any, Final

from tonnage.decide.kubernetes.claims.supply import gates_of
from tonnage.decide.kubernetes.requests import pod_requests
from tonnage.decide.kubernetes.scheduler import messages
from tonnage.decide.kubernetes.scheduler.filters import claims, resources, volumes
from tonnage.decide.kubernetes.scheduler.scheduling import SchedulingDecision, schedule_on
from tonnage.decide.kubernetes.versions import profile_for
from tonnage.loop.informer import Delta, Informer, Informers, Key, following, key_of
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.reading.cluster import node_from, pod_from, snapshot_from
from tonnage.twin.scheduler.cache import SchedulerCache
from tonnage.twin.scheduler.claims import ClaimBinder, ClaimGrant
from tonnage.twin.scheduler.failures import running
from tonnage.twin.scheduler.hints import GATES, claim_helps, node_helps, pod_helps, refused_by
from tonnage.twin.scheduler.queue import SchedulingQueue
from tonnage.twin.scheduler.reports import BROKEN, NAME, REFUSED, PodTeller
from tonnage.twin.scheduler.volume_hints import volume_helps
from tonnage.twin.scheduler.volumes import VolumeBinder, VolumeChoice
from tonnage.wire import kinds
from tonnage.wire import objects as w
from tonnage.wire.claims import ResourceClaim
from tonnage.wire.kinds import Kind

_SELECTING: Final[tuple[Kind[Any], ...]] = (
    kinds.REPLICA_SET, kinds.STATEFUL_SET, kinds.REPLICATION_CONTROLLER, kinds.SERVICE
)  # fmt: skip
"""Kinds that select pods, by which the scheduler spreads those that say nothing about it."""
_BINDER: Final = "DefaultBinder"
_BINDERS: Final = 16
"""Bindings under way at one time: others use the server, too."""
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
        gates: tuple[tuple[str, bool], ...] = (),
        host: str = "control-plane",
    ) -> None:
        self._api = api
        self._clock = clock
        self._teller = PodTeller(api, clock, host)
        profile = profile_for(version)
        self._queue = SchedulingQueue(cuts_short=profile.minor >= _CUTS_SHORT)
        self._cache = SchedulerCache(profile)
        self._changed = asyncio.Event()
        self._pods = informers.of(kinds.POD)
        self._nodes = informers.of(kinds.NODE)
        self._namespaces = informers.of(kinds.NAMESPACE)
        self._budgets = informers.of(kinds.DISRUPTION_BUDGET)
        self._selecting: list[Informer[Any]] = [informers.of(kind) for kind in _SELECTING]
        for copy in (self._namespaces, *self._selecting):
            copy.subscribe(self._on_surroundings)
        self._volumes = VolumeBinder(api, clock, informers, self._on_volume)
        offered = gates_of(profile.minor, gates)
        self._claims = ClaimBinder(api, informers, offered, self._on_claim, self._on_devices)
        self._binding: asyncio.TaskGroup | None = None
        self._binders = asyncio.Semaphore(_BINDERS)
        self._pods.subscribe(self._on_pod)
        self._nodes.subscribe(self._on_node)

    async def run(self) -> None:
        """Schedule until cancelled."""
        copies: list[Informer[Any]] = [self._pods, self._nodes, self._namespaces, self._budgets]
        copies += self._selecting
        async with following(*copies, *self._claims.copies, *self._volumes.copies) as group:
            self._binding = group
            group.create_task(self._teller.run())
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
        reported, before = self._cache.stored(key), self._cache.pod(key)
        after = pod_from(obj) if delta.after is not None else None
        self._cache.set_pod(key, after)
        if after is not None and _is_ours(after):
            self._queue.add(key, after.priority)
            if reported is not None and reported.uid == after.uid:
                self._wake(lambda pod, plugins: pod.key == key and pod_helps(plugins, pod, reported, after))
                if reported.status.nominated_node not in {"", after.status.nominated_node}:
                    # For pods that do not outrank it, it has been on that node.
                    self._wake(
                        lambda pod, plugins: (
                            pod.priority <= reported.priority and pod_helps(plugins, pod, reported, None)
                        )
                    )
        else:
            self._queue.remove(key)
        if _frees(before, after):
            self._wake(lambda pod, plugins: pod_helps(plugins, pod, before, None))
        elif after is not None and after.node_name and not after.finished:
            since = reported if reported is not None and reported.node_name else None
            if since is None or _counts_otherwise(since, after):
                self._wake(lambda pod, plugins: pod_helps(plugins, pod, since, after))
        self._changed.set()

    def _on_node(self, delta: Delta[w.Node]) -> None:
        obj = delta.after or delta.before
        if obj is None:
            return
        after = node_from(obj) if delta.after is not None else None
        before = self._cache.set_node(obj.metadata.name, after)
        self._wake(lambda pod, plugins: node_helps(plugins, pod, before, after))

    def _on_volume(self, delta: Delta[w.Object]) -> None:
        self._wake(lambda pod, plugins: volume_helps(plugins, pod, delta))

    def _on_devices(self) -> None:
        """Classes, slices and devices that are free after all bear on pods with claims, or who get some."""
        self._wake(
            lambda pod, plugins: (
                claims.NAME in plugins or (resources.NAME in plugins and self._claims.concerns(pod))
            )
        )

    def _on_claim(self, delta: Delta[ResourceClaim]) -> None:
        before, after = delta.before, delta.after
        self._wake(lambda pod, plugins: claims.NAME in plugins and claim_helps(pod, before, after))

    def _wake(self, helps: Callable[[Pod, frozenset[str]], bool]) -> None:
        """Try the pods again that a change may help, by the plugins that refused them."""

        def is_helped(key: Key, plugins: frozenset[str]) -> bool:
            pod = self._cache.pod(key)
            return pod is not None and helps(pod, plugins)

        self._queue.wake_where(is_helped)
        self._changed.set()

    async def _cycle(self, key: Key) -> None:
        """Decide on one pod. What was decided counts before the first await, so that no change is missed."""
        pod, obj = self._cache.pod(key), self._pods.get(key[1], key[0])
        if pod is None or obj is None or not _is_ours(pod):
            self._queue.remove(key)
            return
        if pod.gates:
            self._queue.hold(key, GATES)
            await self._teller.gated(obj, messages.GATED)
            return
        if pod.status.terminating:
            self._queue.remove(key)
            await self._teller.passed_over(obj)
            return
        has_claims = self._claims.concerns(pod)
        placed = None if has_claims else self._cache.place(pod, self._surroundings)
        if placed is not None:
            self._queue.remove(key)
            await self._begin_to_bind(pod, obj, placed)
            return
        allocator = self._claims.allocator() if has_claims else None
        view = self._cache.view(self._surroundings(volumes=bool(pod.volumes)), allocator)
        decision = schedule_on(pod, view, binds=True)
        if decision.held:
            self._queue.hold(key, claims.NAME)
            return
        if decision.chosen is not None:
            self._queue.remove(key)
            self._cache.assume(pod, decision.chosen)  # before any await: the room is nobody else's
            node = view.nodes[decision.chosen].node
            choices = self._volumes.choose(pod, node, view.snapshot) if pod.volumes else ()
            if choices is None:
                await self._broke(pod, obj, "not enough volumes for its claims are left")
            elif choices or has_claims:
                grants = self._claims.choose(pod, node, view)
                assert self._binding is not None
                self._binding.create_task(self._bind_with(choices, grants, pod, obj, decision.chosen))
            else:
                await self._begin_to_bind(pod, obj, decision.chosen)
            return
        await self._refuse(pod, obj, decision)

    async def _refuse(self, pod: Pod, obj: w.Pod, decision: SchedulingDecision) -> None:
        """The pod goes nowhere: clear a node for it if that helps, and say so."""
        plugins = refused_by(decision)
        if plugins:
            self._queue.fail(pod.key, self._clock.monotonic(), plugins)
        else:
            self._queue.err(pod.key, self._clock.monotonic())
        nominated = pod.status.nominated_node if decision.keeps_nomination else decision.nominated or ""
        if nominated != pod.status.nominated_node:
            self._cache.nominate(pod, nominated)
        await self._free(pod, decision)
        try:
            await self._evict(pod, decision)
        except ClusterError as error:
            _LOG.warning("victims not evicted: pod=%s/%s error=%s", *pod.key, error)
        else:
            await self._teller.refused(obj, *_words_of(decision), nominated)

    def _on_surroundings(self, delta: Delta[Any]) -> None:
        if _judged_by(delta.before) != _judged_by(delta.after):
            self._cache.changed()

    async def _free(self, pod: Pod, decision: SchedulingDecision) -> None:
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
        selecting = chain.from_iterable(self._selecting)
        return snapshot_from([*self._namespaces, *self._budgets, *selecting, *others])

    async def _bind_with(
        self,
        choices: tuple[VolumeChoice, ...],
        grants: tuple[ClaimGrant, ...],
        pod: Pod,
        obj: w.Pod,
        node: str,
    ) -> None:
        """Bind the pod once its volumes and claims are; others are scheduled meanwhile."""

        def stands() -> bool:
            reported = self._cache.stored(pod.key)
            return reported is not None and reported.uid == pod.uid

        try:
            await self._teller.meant_for(obj, node)
            with running("PreBind", volumes.NAME):
                await self._volumes.bind(choices, pod, node, stands)
            with running("PreBind", claims.NAME):
                await self._claims.bind(grants, pod)
            await self._bind(pod, obj, node)
        except ClusterError as error:
            await self._claims.release(grants, pod)
            await self._broke(pod, obj, str(error))

    async def _begin_to_bind(self, pod: Pod, obj: w.Pod, node: str) -> None:
        """Have the pod bound while others are scheduled: a server that is busy answers late."""
        assert self._binding is not None
        await self._binders.acquire()
        binding = self._binding.create_task(self._bind_alone(pod, obj, node))
        binding.add_done_callback(lambda _binding: self._binders.release())

    async def _bind_alone(self, pod: Pod, obj: w.Pod, node: str) -> None:
        """Bind a pod for which nothing else has to be bound."""
        try:
            await self._bind(pod, obj, node)
        except ClusterError as error:
            await self._broke(pod, obj, str(error))

    async def _bind(self, pod: Pod, obj: w.Pod, node: str) -> None:
        """Bind the pod. Raises ClusterError."""
        body: JsonObject = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        with running("Bind", _BINDER):
            await self._api.create_subresource(kinds.POD, pod.name, "binding", body, namespace=pod.namespace)
        _LOG.info("pod bound: pod=%s/%s node=%s", *pod.key, node)
        await self._teller.placed(obj, node)

    async def _broke(self, pod: Pod, obj: w.Pod, message: str) -> None:
        """What was decided about a pod came to nothing: say so, and try it again after a while."""
        _LOG.warning("pod not bound: pod=%s/%s error=%s", *pod.key, message)
        assumed = self._cache.pod(pod.key)
        self._cache.forget(pod.key)
        self._wake(lambda other, plugins: pod_helps(plugins, other, assumed, None))
        current = self._cache.pod(pod.key)
        if current is not None and current.uid != pod.uid:
            return
        if current is not None and _is_ours(current):
            self._queue.add(pod.key, pod.priority)
            self._queue.err(pod.key, self._clock.monotonic())
        await self._teller.refused(obj, BROKEN, message, "")

    async def _evict(self, pod: Pod, decision: SchedulingDecision) -> None:
        """Ask the victims to go, and take the node away from lesser pods that were promised it."""
        node = decision.nominated
        if node is None:
            return
        for victim in decision.victims:
            obj = self._pods.get(victim.name, victim.namespace)
            if obj is None or victim.status.terminating:
                continue
            _LOG.info("pod preempted: pod=%s/%s by=%s/%s node=%s", *victim.key, *pod.key, node)
            head = obj.metadata
            try:
                await self._teller.doomed(obj)
                await self._api.delete(kinds.POD, head.name, namespace=head.namespace, uid=head.uid)
            except ApiError as error:
                if error.code != 404:
                    raise
                continue
            await self._teller.preempted(obj, pod.uid, self._pods.get(pod.name, pod.namespace), node)
        for lesser in self._cache.nominated_to(node):
            if lesser.priority < pod.priority:
                self._cache.nominate(lesser, "")
                if (lesser_object := self._pods.get(lesser.name, lesser.namespace)) is not None:
                    await self._teller.meant_for(lesser_object, None)


def _judged_by(obj: w.Object | None) -> object:
    """What of an object around pods and nodes bears on decisions, and changes seldom."""
    if isinstance(obj, w.Workload | w.Service):
        return obj.spec
    return obj.metadata.labels if obj is not None else None


def _is_ours(pod: Pod) -> bool:
    """Whether the pod is this scheduler's, and on no node."""
    return not pod.node_name and not pod.finished and pod.scheduler_name == NAME


def _frees(before: Pod | None, after: Pod | None) -> bool:
    """Whether a pod that held something on a node, or waited for one to be cleared, is gone."""
    held = before is not None and (before.node_name or before.status.nominated_node) and not before.finished
    return bool(held and (after is None or after.finished))


def _counts_otherwise(before: Pod, after: Pod) -> bool:
    """Whether a pod on a node has changed in what may bear on others."""
    return before.labels != after.labels or pod_requests(before) != pod_requests(after)


def _words_of(decision: SchedulingDecision) -> tuple[str, str]:
    """The reason and the message of a refusal."""
    if decision.unmodelled:
        return BROKEN, f"this twin does not place pods with {', '.join(decision.unmodelled)}"
    return BROKEN if decision.failed else REFUSED, decision.message
