"""The labels of GPU nodes, as NVIDIA's operator keeps them; without a ClusterPolicy they are taken away."""

from __future__ import annotations

from typing import Final

from tonnage.controller.context import ControllerWorld
from tonnage.decide.cluster.operate.node_metadata import metadata_changes
from tonnage.decide.cluster.operate.policy_status import in_force
from tonnage.loop.informer import Delta, Key, key_of
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.actions.cluster import PatchNode
from tonnage.model.json_access import mappings
from tonnage.reading.gpu_policy import gpu_policy_from
from tonnage.wire.kinds import CLUSTER_POLICY, NODE, NODE_GPU_STATUS
from tonnage.wire.objects import NodeGPUStatus

_WORKERS: Final = 4


class NodeLabelLoop:
    """Looks at a node when it or the number of its devices changes, and at all when a policy does."""

    def __init__(self, world: ControllerWorld) -> None:
        self._world = world
        self._queue: WorkQueue[str] = WorkQueue(world.clock)
        self._nodes = world.copies.of(NODE, lambda key: self._queue.add(key[1]))
        self._reports = world.copies.of(NODE_GPU_STATUS)
        self._policies = world.copies.of(CLUSTER_POLICY, self._policy_changed)
        self._reports.subscribe(self._report_changed)

    async def run(self) -> None:
        """Label until cancelled."""
        for node in self._nodes:
            self._queue.add(node.metadata.name)
        await work(self._queue, self._reconcile, workers=_WORKERS)

    async def look_once(self) -> None:
        """Look at every node, one after another."""
        for node in self._nodes:
            await self._reconcile(node.metadata.name)

    def _policy_changed(self, _key: Key) -> None:
        for node in self._nodes:
            self._queue.add(node.metadata.name)

    def _report_changed(self, change: Delta[NodeGPUStatus]) -> None:
        if _devices(change.before) != _devices(change.after):
            report = change.after or change.before
            assert report is not None
            self._queue.add(key_of(report)[1])

    async def _reconcile(self, name: str) -> None:
        self._world.counters.turned("node-labels")
        node = self._nodes.get(name)
        policy = in_force(gpu_policy_from(policy) for policy in self._policies)
        if node is None:
            return
        report = self._reports.get(name)
        metadata = metadata_changes(
            *(node.metadata.labels, node.metadata.annotations, policy),
            devices=_devices(report),
            divided=_is_divided(report),
        )
        if metadata:
            # With the version that was judged: what a user wrote since then is looked at first.
            metadata["resourceVersion"] = node.metadata.resource_version
            await self._world.performer.perform(PatchNode(name, {"metadata": metadata}))


def _is_divided(report: NodeGPUStatus | None) -> bool:
    """Whether a GPU is in MIG mode, or nobody knows."""
    if report is None or not report.status:
        return True
    return any(device.get("migEnabled") for device in mappings(report.status, "devices"))


def _devices(report: NodeGPUStatus | None) -> int | None:
    """How many devices an agent reports; None: it has not."""
    if report is None or not report.status:
        return None
    devices = report.status.get("devices")
    return len(devices) if isinstance(devices, list) else 0
