"""Pods that kubelet rejected before a node had devices: they go once another can take their place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from tonnage.controller.context import ControllerContext
from tonnage.controller.operator.node_loop import PolicyInForce, reports_of
from tonnage.decide.cluster.operate.rejected_pods import (
    CONDITION,
    bare_pods_condition,
    rejected_pods,
)
from tonnage.loop.informer import Informer, Key
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.actions.cluster import EvictPod
from tonnage.model.actions.subjects import pod_subject
from tonnage.model.errors import ApiError
from tonnage.model.gpu_policy import RejectedPod
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mappings, text
from tonnage.reading.gpu_policy import operated_node_from, rejected_pod_from
from tonnage.wire.kinds import CLUSTER_POLICY, NODE, POD
from tonnage.wire.objects import Pod

_ALL: Final = "all"
_FAILED: Final = "status.phase=Failed"
_SOON_S: Final = 1.0
_AGAIN_S: Final = 60.0
_LOG: Final = logging.getLogger(__name__)


class RejectedPodLoop:
    """Follows failed pods alone. Without the right to read them the other loops go on."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._queue: WorkQueue[str] = WorkQueue(context.clock)
        self._policy = PolicyInForce(context.copies.of(CLUSTER_POLICY, self._changed))
        self._nodes = context.copies.of(NODE, self._changed)
        self._reports = reports_of(context, self._changed)
        self._failed: Informer[Pod] = Informer(
            *(context.api, POD, context.clock), field_selector=_FAILED, on_change=self._changed
        )
        self._bare: tuple[RejectedPod, ...] = ()

    def conditions(self, status: JsonObject) -> list[JsonObject]:
        """What to say beside a policy's other conditions; a condition that stands there is kept true."""
        stands = any(text(condition, "type") == CONDITION for condition in mappings(status, "conditions"))
        return [bare_pods_condition(self._bare)] if self._bare or stands else []

    async def run(self) -> None:
        """Look until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._failed.run())
            await self._failed.synced()
            self._queue.add(_ALL)
            await work(self._queue, self._reconcile)

    async def look_once(self) -> None:
        """Look at the pods that have failed."""
        try:
            pods = (await self._context.api.list(POD, field_selector=_FAILED)).items
        except ApiError as error:
            _LOG.warning("failed pods not read: error=%s", error)
        else:
            await self._look(pods)

    def _changed(self, _key: Key) -> None:
        if len(self._failed) or self._bare:
            self._queue.add_after(_ALL, _SOON_S)

    async def _reconcile(self, _key: str) -> float:
        self._context.counters.turned("rejected-pods")
        await self._look(self._failed)
        return _AGAIN_S

    async def _look(self, pods: Iterable[Pod]) -> None:
        context = self._context
        if self._policy() is None:
            return
        uids: Mapping[tuple[str, str], str] = {
            (pod.metadata.namespace, pod.metadata.name): pod.metadata.uid for pod in pods
        }
        rejected = [rejected_pod_from(pod) for pod in pods]
        names = {pod.node for pod in rejected}
        nodes = {
            node.metadata.name: operated_node_from(node, self._reports.get(node.metadata.name))
            for node in self._nodes
            if node.metadata.name in names
        }
        judged = rejected_pods(rejected, nodes, context.clock.now())
        if judged.bare != self._bare:
            self._bare = judged.bare
            context.policy_turns.soon()
        for pod in judged.replaced:
            await self._evict(pod.namespace, pod.name, uids[pod.namespace, pod.name])

    async def _evict(self, namespace: str, name: str, uid: str) -> None:
        """A pod that has ended may be evicted whatever budgets say; one that is refused waits."""
        try:
            reading = self._context.api.list(POD, namespace=namespace, field_selector=f"metadata.name={name}")
            _, sight = await self._context.performer.look(pod_subject(namespace, name), reading)
            await self._context.performer.perform(EvictPod(namespace, name, uid), sight)
        except ApiError as error:
            if error.code not in (404, 409):
                _LOG.warning("rejected pod not evicted: pod=%s/%s error=%s", namespace, name, error)
