"""Keeps the Node paused while its MIG layout changes, and never longer: cordon, and NVIDIA's operands."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.decide.node.mig.obstacles import node_not_paused, paused_pods_stay
from tonnage.decide.node.mig.pause import NodeNow, pause, restore, resume
from tonnage.model.actions.cluster import PatchNode
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.model.mig.layouts import MigOptions, MigWork
from tonnage.model.reasons.gpu.mig import MigNodeNotPaused
from tonnage.wire.kinds import NODE, POD
from tonnage.wire.objects import Node

_LOG: Final = logging.getLogger(__name__)
_RETRY_S: Final = (1.0, 5.0, 15.0, 60.0)
_PATIENCE_S: Final = 300.0
"""For pods of what was paused to end, as NVIDIA's manager has it."""
_LOOK_S: Final = 2.0


class NodePauses:
    """Follows what is done to the GPUs. The Node itself says what is paused, over any crash."""

    def __init__(self, context: AgentContext, board: NodeBoard, options: MigOptions) -> None:
        self._node = context.node
        self._api = context.api
        self._clock = context.clock
        self._events = context.events
        self._performer = context.performer
        self._board = board
        self._options = options
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._failures = 0
        for topic in (board.node, board.mig_work):
            topic.subscribe(self._wake.set)

    async def run(self) -> None:
        """Keep it until cancelled; what is refused is tried again with growing pauses."""
        while self._api is not None:
            node = self._board.node.value
            due = node is not None and self._patch(_now(node)) is not None
            if due and (why := await self.apply()):
                _LOG.warning("pauses of a MIG change not written: node=%s error=%s", self._node, why.message)
                await self._clock.sleep(_RETRY_S[min(self._failures, len(_RETRY_S)) - 1])
                continue
            await self._wake.wait()
            self._wake.clear()

    async def apply(self) -> MigNodeNotPaused | None:
        """Pause or restore, by the work. Why it is not done; None: it is, as far as the Node was seen."""
        async with self._turn:
            try:
                await self._write()
            except ClusterError as error:
                self._failures += 1
                why = error.message if isinstance(error, ApiError) else "the API server does not answer"
                return node_not_paused(self._node, why)
            self._failures = 0
            return None

    async def pause_and_wait(self) -> MigNodeNotPaused | None:
        """Pause, and return once the pods of what is paused are gone: None; or why that is not reached."""
        if refusal := await self.apply():
            return refusal
        until = self._clock.monotonic() + _PATIENCE_S
        while self._options.pause:
            try:
                left = await self._left()
                if not left:
                    break
            except ClusterError:
                left = ()
            if self._clock.monotonic() >= until:
                return paused_pods_stay(self._node, left, _PATIENCE_S)
            await self._clock.sleep(_LOOK_S)
        return None

    async def _write(self) -> None:
        if self._api is None:
            return
        patch = self._patch(await self._fresh())
        if patch is not None:
            await self._performer.perform(PatchNode(self._node, patch))
            state = "restored" if self._board.mig_work.value is MigWork.NONE else "paused"
            _LOG.info("MIG change: node=%s %s patch=%s", self._node, state, patch)
            self._events.post("Normal", f"Mig{state.title()}", f"for the MIG layout the node is {state}")

    def _patch(self, node: NodeNow) -> JsonObject | None:
        """What is to be written to this Node."""
        work = self._board.mig_work.value
        if work is MigWork.NONE:
            return restore(node)
        if work is MigWork.EVICTING:  # which may take for ever
            return resume(node) or pause(node, cordon=self._options.cordon, operands=False)
        return pause(node, cordon=False, operands=self._options.pause)

    async def _fresh(self) -> NodeNow:
        """The Node as it is: of an older sight a patch would be refused."""
        assert self._api is not None
        listing = await self._api.list(NODE, field_selector=f"metadata.name={self._node}")
        for node in listing.items:
            return _now(node)
        raise ApiError(404, "NotFound", f'nodes "{self._node}" not found')

    async def _left(self) -> tuple[str, ...]:
        """Pods here that run by a label that is paused."""
        assert self._api is not None
        paused = (await self._fresh()).paused.labels
        pods = await self._api.list(POD, field_selector=f"spec.nodeName={self._node}")
        return tuple(
            sorted(
                f"{pod.metadata.namespace}/{pod.metadata.name}"
                for pod in pods.items
                if not paused.keys().isdisjoint(pod.spec.node_selector)
            )
        )


def _now(node: Node) -> NodeNow:
    meta = node.metadata
    return NodeNow(meta.resource_version, meta.labels, meta.annotations, node.spec.unschedulable)
