"""What the operator's loops over nodes share: when they look, and which policy counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final

from tonnage.controller.context import ControllerWorld
from tonnage.decide.cluster.operate.policy_status import in_force
from tonnage.loop.informer import Key
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.gpu_policy import GpuPolicy
from tonnage.reading.gpu_policy import gpu_policy_from
from tonnage.wire.kinds import CLUSTER_POLICY, NODE
from tonnage.wire.nvidia import ClusterPolicy

_WORKERS: Final = 4


def policy_in_force(policies: Iterable[ClusterPolicy]) -> GpuPolicy | None:
    """The policy that counts, as it is read; None: there is none."""
    return in_force(gpu_policy_from(policy) for policy in policies)


class NodeLoop(ABC):
    """Looks at a node when it changes or is put in the queue, and at all nodes when a policy changes."""

    def __init__(self, world: ControllerWorld) -> None:
        self._world = world
        self._queue: WorkQueue[str] = WorkQueue(world.clock)
        self._nodes = world.copies.of(NODE, self._node_changed)
        self._policies = world.copies.of(CLUSTER_POLICY, self._policy_changed)

    async def run(self) -> None:
        """Look until cancelled."""
        self._add_all()
        await work(self._queue, self._reconcile, workers=_WORKERS)

    async def look_once(self) -> None:
        """Look at every node, one after another."""
        for node in self._nodes:
            await self._reconcile(node.metadata.name)

    def _node_changed(self, key: Key) -> None:
        """Also for copies of objects that are named after their nodes."""
        self._queue.add(key[1])

    def _policy_changed(self, _key: Key) -> None:
        self._add_all()

    def _add_all(self) -> None:
        for node in self._nodes:
            self._queue.add(node.metadata.name)

    @abstractmethod
    async def _reconcile(self, name: str) -> float | None:
        """Look at a node; the seconds after which to look again."""
