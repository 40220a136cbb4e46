"""What the operator's loops over nodes share: when they look, and which policy counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from tonnage.controller.context import ControllerContext
from tonnage.decide.cluster.operate.policy_status import in_force
from tonnage.loop.informer import Delta, Informer, Key, key_of
from tonnage.loop.refusals import passing_over
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.gpu_policy import GpuPolicy
from tonnage.reading.gpu_policy import gpu_policy_from
from tonnage.reading.gpu_status import is_news
from tonnage.wire.kinds import CLUSTER_POLICY, NODE
from tonnage.wire.nvidia import ClusterPolicy
from tonnage.wire.objects import NodeGPUStatus

_WORKERS: Final = 4


class PolicyInForce:
    """The policy that counts, read again once a policy has changed; None: there is none."""

    def __init__(self, policies: Informer[ClusterPolicy]) -> None:
        self._policies = policies
        self._versions: tuple[str, ...] = ()
        self._policy: GpuPolicy | None = None

    def __call__(self) -> GpuPolicy | None:
        versions = tuple(policy.metadata.resource_version for policy in self._policies)
        if versions != self._versions:
            self._versions = versions
            self._policy = in_force(gpu_policy_from(policy) for policy in self._policies)
        return self._policy


class NodeLoop(ABC):
    """Looks at a node when it changes or is put in the queue, and at all nodes when a policy changes."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._queue: WorkQueue[str] = WorkQueue(context.clock)
        self._nodes = context.copies.of(NODE, self._node_changed)
        self._policy = PolicyInForce(context.copies.of(CLUSTER_POLICY, self._policy_changed))
        """Called, it is the policy that counts."""

    async def run(self) -> None:
        """Look until cancelled."""
        self._add_all()
        await work(self._queue, self._reconcile, workers=_WORKERS)

    async def look_once(self) -> None:
        """Look at every node, one after another. One that was changed meanwhile is left to the next look."""
        for node in self._nodes:
            with passing_over(404, 409):
                await self._reconcile(node.metadata.name)

    def _node_changed(self, key: Key) -> None:
        self._queue.add(key[1])

    def _report_changed(self, change: Delta[NodeGPUStatus]) -> None:
        """A heartbeat is no change."""
        report = change.after or change.before
        if report is not None and is_news(change.before, change.after):
            self._queue.add(key_of(report)[1])

    def _policy_changed(self, _key: Key) -> None:
        self._add_all()

    def _add_all(self) -> None:
        for node in self._nodes:
            self._queue.add(node.metadata.name)

    @abstractmethod
    async def _reconcile(self, name: str) -> float | None:
        """Look at a node; the seconds after which to look again."""
