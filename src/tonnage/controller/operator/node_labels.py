"""The labels of GPU nodes, as NVIDIA's operator keeps them; without a ClusterPolicy they are taken away."""

from __future__ import annotations

from tonnage.controller.context import ControllerContext
from tonnage.controller.operator.node_loop import NodeLoop
from tonnage.decide.cluster.operate.node_metadata import metadata_changes
from tonnage.model.actions.cluster import PatchNode
from tonnage.reading.gpu_policy import devices_in, is_divided


class NodeLabelLoop(NodeLoop):
    """Looks at a node when it or the number of its devices changes, and at all when a policy does."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, lambda before, after: devices_in(before) != devices_in(after))

    async def _reconcile(self, name: str) -> float | None:
        self._context.counters.turned("node-labels")
        node = self._nodes.get(name)
        policy = self._policy()
        if node is None:
            return None
        report = self._reports.get(name)
        metadata = metadata_changes(
            *(node.metadata.labels, node.metadata.annotations, policy),
            devices=devices_in(report),
            divided=is_divided(report),
        )
        if metadata:
            # With the version that was judged: what a user wrote since then is looked at first.
            metadata["resourceVersion"] = node.metadata.resource_version
            await self._context.performer.perform(PatchNode(name, {"metadata": metadata}))
        return None
