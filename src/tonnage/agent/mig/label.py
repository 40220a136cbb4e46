"""How the node stands to its MIG layout, on the Node: a label as NVIDIA's manager has it, and the reason."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.retries import Retries
from tonnage.model.actions.cluster import PatchNode
from tonnage.model.errors import ClusterError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.mig.layouts import MigWork
from tonnage.model.names import MIG_CONFIG_LABEL, MIG_REASON_ANNOTATION, MIG_STATE_LABEL

_LOG: Final = logging.getLogger(__name__)


class MigLabel:
    """Keeps label and annotation like the standing; while that is None they stay as they are.

    Of a node that asks for no layout, and is not being changed, both are taken away.
    """

    def __init__(self, context: AgentContext, board: NodeBoard) -> None:
        self._node = context.node
        self._api = context.api
        self._clock = context.clock
        self._performer = context.performer
        self._board = board
        self._dirty = asyncio.Event()
        self._complaint = ""
        for topic in (board.node, board.mig_work, board.mig_standing):
            topic.subscribe(self._dirty.set)

    async def run(self) -> None:
        """Write after every change until cancelled; a refusal is logged once and tried again."""
        retries = Retries()
        while self._api is not None:
            await self._dirty.wait()
            self._dirty.clear()
            if (patch := self._patch()) is None:
                continue
            try:
                await self._performer.perform(PatchNode(self._node, {"metadata": patch}))
                self._complaint = ""
                retries.succeeded()
            except ClusterError as error:
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    _LOG.warning("MIG state not written: node=%s error=%s", self._node, error)
                await self._clock.sleep(retries.after(error))
                self._dirty.set()

    def _patch(self) -> JsonObject | None:
        """What is to be written; None for nothing."""
        standing, node = self._board.mig_standing.value, self._board.node.value
        if node is None:
            return None
        busy = self._board.mig_work.value is not MigWork.NONE
        requested = bool(node.metadata.labels.get(MIG_CONFIG_LABEL)) or busy
        if requested and standing is None:
            return None
        state, reason = (
            (str(standing.state), standing.reason) if requested and standing is not None else ("", "")
        )
        labels: dict[str, JsonValue] = {}
        if node.metadata.labels.get(MIG_STATE_LABEL, "") != state:
            labels[MIG_STATE_LABEL] = state or None
        annotations: dict[str, JsonValue] = {}
        if node.metadata.annotations.get(MIG_REASON_ANNOTATION, "") != reason:
            annotations[MIG_REASON_ANNOTATION] = reason or None
        if not labels and not annotations:
            return None
        return {"labels": labels, "annotations": annotations}
