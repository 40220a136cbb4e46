"""Shows how the agent's parts stand, and notices pods that ask for a part's restart."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.decide.node.operand_standing import PartFacts, StatusFileSet, status_files, waits
from tonnage.model.actions.checkpoints import SaveCheckpoint
from tonnage.model.actions.status_files import ShowStatusFiles
from tonnage.model.errors import ConfigError, HardwareError
from tonnage.model.json import parsed_json
from tonnage.model.names import VALIDATED
from tonnage.model.operands import OPERAND_LABEL, OPERANDS, PARTS_OFF, SWITCHED

_LOG: Final = logging.getLogger(__name__)
CHECKPOINT: Final = "parts-off"
_LOOK_S: Final = 60.0
_RETRY_S: Final = 5.0


class OperandFollower:
    """Keeps status files and the logs' folders like the board.

    A pod that bears a part's name follows the part's log. One that takes the place of another asks for a
    restart, as it would of NVIDIA's operand: what the part last did is done once more.
    """

    def __init__(self, context: AgentContext, board: NodeBoard) -> None:
        self._node = context.node
        self._clock = context.clock
        self._checkpoints = context.checkpoints
        self._performer = context.performer
        self._board = board
        self._wake = asyncio.Event()
        self._shown: StatusFileSet | None = None
        self._waits: dict[str, str] = {}
        self._pods: dict[str, str] = {}
        """The pod that followed each part last, by its uid."""
        for topic in (
            *(board.inventory, board.devices_error, board.configuration, board.offer, board.node),
            *(board.software, board.labels, board.parts_off),
        ):
            topic.subscribe(self._wake.set)
        board.pods.subscribe(self._see_pods)

    async def restore(self) -> None:
        """Keep what was switched off last so: kubelet is served before the Node object is seen."""
        try:
            saved = await self._checkpoints.load(CHECKPOINT)
            parts = parsed_json(saved) if saved is not None else []
        except (HardwareError, ConfigError, ValueError) as error:
            _LOG.warning("parts that are off not known: node=%s error=%s", self._node, error)
            return
        if isinstance(parts, list):
            self._board.parts_off.publish(frozenset(str(part) for part in parts) & frozenset(SWITCHED))

    async def run(self) -> None:
        """Follow the board until cancelled; somebody who removes a file gets it back."""
        for part in OPERANDS:
            _log_of(part).info("part of tonnage node: part=%s node=%s", part, self._node)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick())
            while True:
                self._wake.clear()
                await self._switch()
                await self._show()
                await self._wake.wait()

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(_RETRY_S if self._shown is None else _LOOK_S)
            self._shown = None
            self._wake.set()

    async def _switch(self) -> None:
        """Have the parts off that the Node says; one that is away for a moment says nothing new."""
        node = self._board.node.value
        if node is None:
            return
        words = node.metadata.annotations.get(PARTS_OFF, "").split(",")
        off = frozenset(words) & frozenset(SWITCHED)
        before = self._board.parts_off.value
        if off == before:
            return
        for part in sorted(off ^ before):
            log = _log_of(part)
            log.info("switched %s: part=%s node=%s", "off" if part in off else "on", part, self._node)
        try:
            await self._performer.perform(SaveCheckpoint(CHECKPOINT, json.dumps(sorted(off)).encode()))
        except HardwareError as error:
            _LOG.warning("parts that are off not kept on disk: node=%s error=%s", self._node, error)
        self._board.parts_off.publish(off)

    async def _show(self) -> None:
        facts = self._facts()
        self._tell(waits(facts))
        files = status_files(facts)
        if files == self._shown:
            return
        try:
            await self._performer.perform(ShowStatusFiles(tuple(files.files.items()), files.absent))
        except HardwareError as error:
            _LOG.warning("status files not written: node=%s error=%s", self._node, error)
        else:
            self._shown = files

    def _tell(self, now: dict[str, str]) -> None:
        """Say in each part's log what has changed about it."""
        for part, why in now.items():
            if self._waits.get(part) != why:
                log = _log_of(part)
                log.info(*(("waits: part=%s why=%s", part, why) if why else ("ready: part=%s", part)))
        self._waits = now

    def _facts(self) -> PartFacts:
        board = self._board
        inventory, config, offer, node = (
            *(board.inventory.value, board.configuration.value),
            *(board.offer.value, board.node.value),
        )
        offered = {shown.resource for shown in offer.advertised} if offer is not None else set()
        there = node.status.allocatable if node is not None else {}
        return PartFacts(
            devices=len(inventory.devices) if inventory is not None else 0,
            driver_error=board.devices_error.value,
            driver_root=config.config.driver_root if config is not None else "/",
            runtime=board.software.value.runtime.name,
            device_list=config.device_list if config is not None else "the configuration is not known yet",
            off=board.parts_off.value,
            offered=offered,
            lacking=[name for name in offered if name not in there],
            labelled=board.labels.value is not None,
            validated=node is not None and node.metadata.annotations.get(VALIDATED) == "true",
        )

    def _see_pods(self) -> None:
        """Ask for the restart of each part whose pod is another than the one before."""
        restarts: dict[str, str] = {}
        for pod in self._board.pods.value.values():
            part = pod.labels.get(OPERAND_LABEL, "")
            if part in OPERANDS and self._pods.get(part) != pod.uid:
                if part in self._pods:
                    restarts[part] = pod.uid
                self._pods[part] = pod.uid
        if restarts:
            self._board.restarts.publish({**self._board.restarts.value, **restarts})
            for part in restarts:
                log = _log_of(part)
                log.info("restart asked for by a new pod: part=%s node=%s", part, self._node)


def _log_of(part: str) -> logging.Logger:
    """The logger of the part's own loop."""
    return logging.getLogger("tonnage").getChild(OPERANDS[part].modules[0])
