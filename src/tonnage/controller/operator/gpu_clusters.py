"""GPUClusters, NVIDIA's policy for claims: each is told what its nodes wait for."""

from __future__ import annotations

import asyncio
from typing import Final

from tonnage.controller.context import ControllerContext
from tonnage.controller.operator.node_loop import PolicyInForce, reports_of
from tonnage.decide.cluster.operate.gpu_cluster import gpu_cluster_status
from tonnage.decide.cluster.operate.node_readiness import gpu_nodes
from tonnage.loop.informer import Informer, Key
from tonnage.loop.refusals import or_none
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.actions.cluster import PatchGpuClusterStatus
from tonnage.model.json import JsonObject
from tonnage.reading.gpu_policy import gpu_cluster_from, operated_node_from
from tonnage.wire.kinds import CLUSTER_POLICY, GPU_CLUSTER, NODE
from tonnage.wire.nvidia import GpuCluster

_ALL: Final = "all"
_SOON_S: Final = 1.0
_AGAIN_S: Final = 60.0


class GpuClusterLoop:
    """Where the kind is not served the other loops go on."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._queue: WorkQueue[str] = WorkQueue(context.clock)
        self._policy = PolicyInForce(context.copies.of(CLUSTER_POLICY, self._changed))
        self._nodes = context.copies.of(NODE, self._changed)
        self._reports = reports_of(context, self._changed)
        self._clusters: Informer[GpuCluster] = Informer(
            context.api, GPU_CLUSTER, context.clock, on_change=self._cluster_changed
        )
        self._listed = False

    async def run(self) -> None:
        """Look until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._clusters.run())
            await self._clusters.synced()
            self._listed = True
            self._context.policy_turns.soon()
            self._queue.add(_ALL)
            await work(self._queue, self._reconcile)

    async def look_once(self) -> None:
        """Look at every GPUCluster; where the kind is not served, or may not be read, there is none."""
        listing = await or_none(self._context.api.list(GPU_CLUSTER), (403, 404))
        for cluster in () if listing is None else listing.items:
            await self._look(cluster)

    def names(self) -> tuple[str, ...] | None:
        """Those that are there, by name; None: nobody knows yet."""
        if not self._listed:
            return None
        return tuple(sorted(cluster.metadata.name for cluster in self._clusters))

    def _cluster_changed(self, key: Key) -> None:
        self._changed(key)
        self._context.policy_turns.soon()

    def _changed(self, _key: Key) -> None:
        if len(self._clusters):
            self._queue.add_after(_ALL, _SOON_S)

    async def _reconcile(self, _key: str) -> float:
        self._context.counters.turned("gpu-clusters")
        for cluster in self._clusters:
            await self._look(cluster)
        return _AGAIN_S

    async def _look(self, cluster: GpuCluster) -> None:
        context, name = self._context, cluster.metadata.name
        policy = self._policy()
        nodes = gpu_nodes(
            operated_node_from(node, self._reports.get(node.metadata.name)) for node in self._nodes
        )
        status = gpu_cluster_status(
            *(gpu_cluster_from(cluster), nodes, policy.name if policy is not None else ""),
            *(context.operator_namespace, context.clock.now()),
        )
        if status is not None:
            metadata: JsonObject = {"resourceVersion": cluster.metadata.resource_version}
            patch: JsonObject = {"metadata": metadata, "status": status}
            await context.performer.perform(PatchGpuClusterStatus(name, patch))
