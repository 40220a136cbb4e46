"""Nodes that nobody has looked at are probed for GPUs, once in each boot."""

from __future__ import annotations

from typing import Final

from tonnage.controller.context import ControllerContext
from tonnage.controller.operator.node_loop import NodeLoop
from tonnage.controller.operator.node_pods import PodPlaces, delete_pod
from tonnage.decide.cluster.operate.node_metadata import with_consequences
from tonnage.decide.cluster.operate.node_pod import node_pod
from tonnage.decide.cluster.operate.probe import PROBE, PROBED_BOOT, probe_step
from tonnage.loop.informer import Informer
from tonnage.model.actions.cluster import PatchNode
from tonnage.reading.gpu_policy import devices_in, is_divided, operated_node_from
from tonnage.wire.objects import Pod

_SOON_S: Final = 5.0


class ProbeLoop(NodeLoop):
    """Looks at a node when it, its report or its pod changes; without an image at none."""

    def __init__(self, context: ControllerContext, pods: Informer[Pod]) -> None:
        super().__init__(context)
        self._pods = PodPlaces(context, pods, PROBE.app, self._queue.add)

    async def _reconcile(self, name: str) -> float | None:
        with self._pods.turn(name):
            return await self._look(name)

    async def _look(self, name: str) -> float | None:
        context = self._context
        node, policy = self._nodes.get(name), self._policy()
        if not context.operand_image or node is None or policy is None:
            return None
        context.counters.turned("probes")
        pod = self._pods.pod_of(name)
        boot = node.metadata.annotations.get(PROBED_BOOT, "")
        report = self._reports.get(name)
        operated = operated_node_from(node, report)
        step = probe_step(operated, boot, pod, context.clock.now())
        if step.make_pod:
            if not self._pods.has_place(name):
                return None
            body = node_pod(PROBE, name, policy, context.operand_image, context.operator_namespace)
            await self._pods.make(name, body)
        if step.metadata is not None:
            metadata = with_consequences(
                *(step.metadata, node.metadata.labels, node.metadata.annotations, policy),
                devices=devices_in(report),
                divided=is_divided(report),
            )
            metadata["resourceVersion"] = node.metadata.resource_version
            await context.performer.perform(PatchNode(name, {"metadata": metadata}))
        if step.delete_pod and pod is not None:
            await delete_pod(context, pod)
        return _SOON_S if step.make_pod or pod is not None else None
