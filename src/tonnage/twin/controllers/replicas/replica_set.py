"""ReplicaSetController: as many pods as ReplicaSets and ReplicationControllers ask for."""

from __future__ import annotations

import asyncio
from typing import Final, Generic, TypeVar

from tonnage.loop.events import recorder_over
from tonnage.loop.expectations import Expectations
from tonnage.loop.informer import Delta, Informer, Informers, Key, following
from tonnage.loop.ownership import Ownership, controller_of, controller_reference
from tonnage.loop.pod_control import PodControl, in_batches, message_of
from tonnage.loop.status_writes import merge_status
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ClusterError
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.controllers import pod_state
from tonnage.twin.controllers.label_selection import Labels, selects
from tonnage.twin.controllers.pod_templates import pod_from
from tonnage.twin.controllers.replicas.status import replica_set_status, status_patch
from tonnage.wire.kinds import POD, REPLICA_SET, Kind
from tonnage.wire.objects import LabelSelector, Pod, ReplicaSet
from tonnage.wire.workloads import Replication

OwnerT = TypeVar("OwnerT", ReplicaSet, Replication)

REPLICATION: Final = Kind("", "v1", "ReplicationController", "replicationcontrollers", True, Replication)
_BURST: Final = 500


class PodReplicator(Generic[OwnerT]):
    """Creates, adopts and deletes pods of owners of one kind and keeps their status."""

    def __init__(
        self,
        api: KubernetesApi,
        clock: Clock,
        informers: Informers,
        kind: Kind[OwnerT],
        component: str,
    ) -> None:
        self._api = api
        self._clock = clock
        self._kind: Kind[OwnerT] = kind
        self._events = recorder_over(api, clock, component)
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._any = asyncio.Event()
        self._sets: Informer[OwnerT] = informers.of(kind, self._set_changed)
        self._pods = informers.of(POD)
        self._pods.add_index("namespace", lambda pod: [pod.metadata.namespace])
        self._pods.subscribe(self._pod_changed)
        self._expected = Expectations(clock)
        self._control = PodControl(api, self._events, self._expected, self._pods)
        self._ownership: Ownership[OwnerT, Pod] = Ownership(api, kind, POD, _selects)

    async def run(self) -> None:
        """Reconcile until cancelled; pods are not watched before the first owner is there."""
        async with following(self._sets) as group:
            await self._any.wait()
            group.create_task(self._pods.run())
            await self._pods.synced()
            group.create_task(work(self._queue, self._reconcile, workers=4))

    def _set_changed(self, key: Key) -> None:
        self._any.set()
        self._queue.add(key)

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        self._expected.observe(delta)
        for key in self._ownership.concerned(delta, self._sets):
            self._queue.add(key)

    async def _reconcile(self, key: Key) -> float | None:
        namespace, name = key
        owner = self._sets.get(name, namespace)
        if owner is None or not self._expected.satisfied(key):
            return None if owner is None else 30.0
        owned = await self._ownership.settle(owner, self._pods.by_index("namespace", namespace))
        active = [pod for pod in owned if pod_state.is_active(pod)]
        failure: ClusterError | None = None
        if owner.metadata.deletion_timestamp is None:
            try:
                await self._scale(owner, active)
            except ClusterError as error:
                failure = error
        leaving = sum(pod_state.is_terminating(pod) for pod in owned)
        message = message_of(failure) if failure else ""
        again_s = await self._update_status(owner, active, message, leaving)
        if failure is not None:
            raise failure
        return again_s

    async def _scale(self, owner: OwnerT, active: list[Pod]) -> None:
        missing = owner.spec.replicas - len(active)
        if missing > 0:
            await self._create(owner, min(missing, _BURST))
        elif missing < 0:
            related = self._related(owner)
            for pod in pod_state.in_deletion_order(active, related)[: min(-missing, _BURST)]:
                await self._control.delete(owner, pod)

    def _related(self, owner: OwnerT) -> list[Pod]:
        """Pods of all ReplicaSets that have the same controller: those that crowd a node."""
        controller = controller_of(owner)
        if controller is None:
            uids = {owner.metadata.uid}
        else:
            uids = {s.metadata.uid for s in self._sets if (c := controller_of(s)) and c.uid == controller.uid}
        pods = self._pods.by_index("namespace", owner.metadata.namespace)
        return [pod for pod in pods if (c := controller_of(pod)) and c.uid in uids]

    async def _create(self, owner: OwnerT, count: int) -> None:
        body = pod_from(
            owner.spec.template, f"{owner.metadata.name}-", controller_reference(owner, self._kind)
        )
        await in_batches(range(count), lambda _: self._control.make(owner, body))

    async def _update_status(
        self, owner: OwnerT, active: list[Pod], failure: str, terminating: int
    ) -> float | None:
        status, again_s = replica_set_status(
            owner, active, self._clock.now(), failure, terminating=terminating
        )
        patch = status_patch(owner.status, status)
        if patch is not None:
            await merge_status(self._api, self._kind, owner, patch)
        return again_s


class ReplicaSetController(PodReplicator[ReplicaSet]):
    """Keeps the pods of ReplicaSets."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        super().__init__(api, clock, informers, REPLICA_SET, "replicaset-controller")


class ReplicationManager(PodReplicator[Replication]):
    """Keeps the pods of ReplicationControllers."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        super().__init__(api, clock, informers, REPLICATION, "replication-controller")


def _selects(owner: ReplicaSet | Replication, labels: Labels) -> bool:
    chosen = owner.spec.selector
    return selects(LabelSelector(match_labels=chosen) if isinstance(chosen, dict) else chosen, labels)
