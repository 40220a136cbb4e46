"""Nodes that nobody has looked at are probed for GPUs, once in each boot."""

from __future__ import annotations

from typing import Final

from tonnage.controller.context import ControllerWorld
from tonnage.controller.operator.node_loop import NodeLoop
from tonnage.controller.operator.node_pods import delete_pod, is_full, seen_pod, tell_nodes
from tonnage.decide.cluster.operate.node_pod import node_pod, pod_name
from tonnage.decide.cluster.operate.probe import PROBE, PROBED_BOOT, probe_step
from tonnage.loop.informer import Informer
from tonnage.model.actions.cluster import ApplyObject, PatchNode
from tonnage.reading.gpu_policy import operated_node_from
from tonnage.wire.kinds import NODE_GPU_STATUS
from tonnage.wire.objects import Pod

_SOON_S: Final = 5.0


class ProbeLoop(NodeLoop):
    """Looks at a node when it, its report or its pod changes; without an image at none."""

    def __init__(self, world: ControllerWorld, pods: Informer[Pod]) -> None:
        super().__init__(world)
        self._reports = world.copies.of(NODE_GPU_STATUS)
        self._reports.subscribe(self._report_changed)
        self._pods = pods
        tell_nodes(pods, PROBE.app, self._queue.add)

    async def _reconcile(self, name: str) -> float | None:
        world = self._world
        node, policy = self._nodes.get(name), self._policy()
        if not world.operand_image or node is None or policy is None:
            return None
        world.counters.turned("probes")
        pod = seen_pod(self._pods.get(pod_name(PROBE.app, name), world.operator_namespace))
        boot = node.metadata.annotations.get(PROBED_BOOT, "")
        operated = operated_node_from(node, self._reports.get(name))
        step = probe_step(operated, boot, pod, world.clock.now())
        if step.make_pod:
            if is_full(self._pods, PROBE.app):
                return _SOON_S
            body = node_pod(PROBE, name, policy, world.operand_image, world.operator_namespace)
            await world.performer.perform(ApplyObject.of(body))
        if step.metadata is not None:
            metadata = {**step.metadata, "resourceVersion": node.metadata.resource_version}
            await world.performer.perform(PatchNode(name, {"metadata": metadata}))
        if step.delete_pod and pod is not None:
            await delete_pod(world, pod)
        return _SOON_S if step.make_pod or pod is not None else None
