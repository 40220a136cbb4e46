"""Has the parts that NVIDIA's operands do, too, wait until the node is adopted and these have left it."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.model.adoption import NOTE, AdoptionNote, note_from
from tonnage.model.errors import ClusterError
from tonnage.model.operands import ADOPTED, DEPLOY, OPERANDS, SWITCHED
from tonnage.ports.node import KubeletDevices
from tonnage.wire.objects import Node

_LOG: Final = logging.getLogger(__name__)
_ALL: Final = frozenset(SWITCHED)
_LOOK_S: Final = 0.2


class AdoptionWait:
    """Has every such part off while the Node's label does not say that it was adopted.

    Where another plugin is noted, parts also wait until kubelet has none of its devices and its pods have
    ended. Nothing is kept on disk: an agent that cannot see its Node must not serve beside another plugin.
    """

    def __init__(self, context: AgentContext, board: NodeBoard, kubelet: KubeletDevices) -> None:
        self._node = context.node
        self._clock = context.clock
        self._board = board
        self._kubelet = kubelet
        self._complaint = ""
        self._wake = asyncio.Event()
        board.parts_off.publish(_ALL)
        board.node.subscribe(self._follow)

    async def run(self) -> None:
        """Follow the Node until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._board.parts_off.value and self._is_adopted():
                node = self._board.node.value
                if node is not None and await self._is_free(node) and self._is_adopted():
                    _LOG.info("node adopted: node=%s", self._node)
                    self._board.parts_off.publish(frozenset())
                else:
                    await self._clock.sleep(_LOOK_S)

    def _follow(self) -> None:
        if self._board.node.value is None:
            return  # one that is away for a moment says nothing new
        if self._is_adopted():
            self._wake.set()
        else:
            self._board.parts_off.publish(_ALL)

    def _is_adopted(self) -> bool:
        node = self._board.node.value
        return node is not None and node.metadata.labels.get(ADOPTED) == "true"

    async def _is_free(self, node: Node) -> bool:
        """Whether no other plugin is left; that of a node that was adopted before has left long ago."""
        note = note_from(node.metadata.annotations.get(NOTE, ""))
        if note is None or note.proven:
            return True
        try:
            # kubelet's list disturbs allocations, so it is asked for only once there is nothing to allocate.
            there = {resource for resource, _ in await self._kubelet.replicas()}
            return note.allocatable.keys().isdisjoint(there) and not await self._pods_left(note)
        except ClusterError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                _LOG.warning("kubelet does not say whether it is free: node=%s error=%s", self._node, error)
            return False

    async def _pods_left(self, note: AdoptionNote) -> bool:
        parts = (key.removeprefix(DEPLOY) for key in note.labels)
        names = tuple(f"{OPERANDS[part].daemon_set}-" for part in parts if part in OPERANDS)
        pods = (await self._kubelet.shown()).pods
        return any(name.startswith(names) and note.namespace in ("", namespace) for namespace, name in pods)
