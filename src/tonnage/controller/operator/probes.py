"""Nodes that nobody has looked at are probed for GPUs, once in each boot."""

from __future__ import annotations

from typing import Final

from tonnage.controller.context import ControllerContext
from tonnage.controller.operator.node_loop import NodeLoop
from tonnage.controller.operator.node_pods import delete_pod, is_full, seen_pod, tell_nodes
from tonnage.decide.cluster.operate.node_pod import node_pod, pod_name
from tonnage.decide.cluster.operate.probe import PROBE, PROBED_BOOT, probe_step
from tonnage.loop.informer import Informer
from tonnage.model.actions.cluster import ApplyObject, PatchNode
from tonnage.reading.gpu_policy import operated_node_from
from tonnage.wire.objects import Pod

_SOON_S: Final = 5.0


class ProbeLoop(NodeLoop):
    """Looks at a node when it, its report or its pod changes; without an image at none."""

    def __init__(self, context: ControllerContext, pods: Informer[Pod]) -> None:
        super().__init__(context)
        self._pods = pods
        tell_nodes(pods, PROBE.app, self._queue.add)

    async def _reconcile(self, name: str) -> float | None:
        context = self._context
        node, policy = self._nodes.get(name), self._policy()
        if not context.operand_image or node is None or policy is None:
            return None
        context.counters.turned("probes")
        pod = seen_pod(self._pods.get(pod_name(PROBE.app, name), context.operator_namespace))
        boot = node.metadata.annotations.get(PROBED_BOOT, "")
        operated = operated_node_from(node, self._reports.get(name))
        step = probe_step(operated, boot, pod, context.clock.now())
        if step.make_pod:
            if is_full(self._pods, PROBE.app):
                return _SOON_S
            body = node_pod(PROBE, name, policy, context.operand_image, context.operator_namespace)
            await context.performer.perform(ApplyObject.of(body))
        if step.metadata is not None:
            metadata = {**step.metadata, "resourceVersion": node.metadata.resource_version}
            await context.performer.perform(PatchNode(name, {"metadata": metadata}))
        if step.delete_pod and pod is not None:
            await delete_pod(context, pod)
        return _SOON_S if step.make_pod or pod is not None else None
