"""What the operator's loops over nodes share: when they look, and which policy counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from tonnage.controller.context import ControllerContext
from tonnage.decide.cluster.operate.policy_status import in_force
from tonnage.loop.informer import Delta, Informer, Key, key_of
from tonnage.loop.refusals import passing_over
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.gpu_policy import GpuPolicy
from tonnage.reading.gpu_policy import gpu_policy_from
from tonnage.reading.gpu_status import is_news
from tonnage.wire.kinds import CLUSTER_POLICY, NODE, NODE_GPU_STATUS
from tonnage.wire.nvidia import ClusterPolicy
from tonnage.wire.objects import NodeGPUStatus

_WORKERS: Final = 8
ReportDifference = Callable[[NodeGPUStatus | None, NodeGPUStatus | None], bool]


def reports_of(
    context: ControllerContext, changed: Callable[[Key], None], differs: ReportDifference = is_news
) -> Informer[NodeGPUStatus]:
    """The agents' reports; `changed` is called for those that differ from before: a heartbeat does not."""
    reports = context.copies.of(NODE_GPU_STATUS)

    def on_change(change: Delta[NodeGPUStatus]) -> None:
        report = change.after or change.before
        if report is not None and differs(change.before, change.after):
            changed(key_of(report))

    reports.subscribe(on_change)
    return reports


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
    """Looks at a node when it or its report changes, and at all nodes when a policy does."""

    def __init__(self, context: ControllerContext, report_differs: ReportDifference = is_news) -> None:
        self._context = context
        self._queue: WorkQueue[str] = WorkQueue(context.clock)
        self._nodes = context.copies.of(NODE, self._node_changed)
        policies = context.copies.of(CLUSTER_POLICY)
        policies.subscribe(self._policy_written)
        self._policy = PolicyInForce(policies)
        """Called, it is the policy that counts."""
        self._reports = reports_of(context, self._node_changed, report_differs)

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

    def _policy_written(self, change: Delta[ClusterPolicy]) -> None:
        """The controller's own writes of its status are no reason to look at a whole fleet."""
        if _spec_of(change.before) != _spec_of(change.after):
            self._policy_changed()

    def _policy_changed(self) -> None:
        self._add_all()

    def _add_all(self) -> None:
        for node in self._nodes:
            self._queue.add(node.metadata.name)

    @abstractmethod
    async def _reconcile(self, name: str) -> float | None:
        """Look at a node; the seconds after which to look again."""


def _spec_of(policy: ClusterPolicy | None) -> object:
    return None if policy is None else (policy.metadata.uid, policy.spec)
