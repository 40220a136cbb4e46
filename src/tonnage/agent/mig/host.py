"""What the node's host does around a MIG change: hooks run, services that use GPUs stand still."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

import msgspec

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.mig.state import words
from tonnage.decide.node.mig.change import MigChange
from tonnage.decide.node.mig.obstacles import change_refused, not_restarted
from tonnage.loop.performer import Note
from tonnage.model.actions.checkpoints import SaveCheckpoint
from tonnage.model.actions.host import RestartNode, RunHook, StartService, StopService
from tonnage.model.actions.subjects import service_subject
from tonnage.model.errors import HardwareError
from tonnage.model.mig.layouts import MigWork
from tonnage.model.reasons.gpu.mig import MigNodeNotRestarted, MigObstacle
from tonnage.ports.node import HostView
from tonnage.wire.decode import decoded_json

_LOG: Final = logging.getLogger(__name__)
CHECKPOINT: Final = "mig-stopped"
_UNIT_S: Final = 90.0
_AGAIN_S: Final = 30.0
_TELL_S: Final = 5.0
"""So that the Node says why it goes away."""
_RESTART_S: Final = 600.0


class MigHost:
    """Remembers on disk which services it stopped, before it does: whoever comes after starts them again."""

    def __init__(self, context: AgentContext, board: NodeBoard, programs: HostView) -> None:
        self._node = context.node
        self._clock = context.clock
        self._events = context.events
        self._checkpoints = context.checkpoints
        self._performer = context.performer
        self._programs = programs
        self._board = board
        self._turn = asyncio.Lock()
        self._recalled = False
        self.stopped: tuple[str, ...] = ()

    async def _recall(self) -> None:
        """Learn what an earlier agent stopped."""
        if self._recalled:
            return
        self._recalled = True
        try:
            payload = await self._checkpoints.load(CHECKPOINT)
            if payload is not None:
                self.stopped = decoded_json(payload, tuple[str, ...])
        except (HardwareError, ValueError) as error:
            _LOG.error("stopped services unknown: node=%s error=%s", self._node, error)
            self._events.post("Warning", "MigStoppedLost", f"the list of stopped services is lost: {error}")

    async def run(self) -> None:
        """While nothing is changed, start what is not yet started again, until cancelled."""
        while True:
            if self._board.mig_work.value is not MigWork.CHANGING:
                await self._start()
            await self._clock.sleep(_AGAIN_S)

    async def prepare(self, change: MigChange, note: Note | None) -> MigObstacle | None:
        """Hooks, and services stopped, before anything is done to the GPUs. What refuses it, if anything."""
        modes = {shape.uuid: shape.enabled for shape in change.before}
        turns = any(modes[shape.uuid] != shape.enabled for shape in change.goal)
        names = ("apply-start", *(("pre-apply-mode",) if turns else ()), "pre-apply-config")
        try:
            for name in names:
                await self._hooks(change, name, note)
            for unit in change.host.services:
                await self._stop(unit)
        except HardwareError as error:
            return change_refused(change.config, words(error))
        return None

    async def finish(self, change: MigChange, note: Note | None) -> None:
        """The last hooks, and what was stopped runs again; what goes wrong is told, and holds nothing up."""
        try:
            await self._hooks(change, "apply-exit", note)
        except HardwareError as error:
            self._complain("MigHookFailed", f"after {change.config}: {words(error)}")
        await self._start()

    async def restart(self, boot: str, note: Note | None) -> MigNodeNotRestarted:
        """Restart the node, which ends this process. Why it has not."""
        await self._clock.sleep(_TELL_S)
        _LOG.warning("node restarts for a MIG change: node=%s", self._node)
        try:
            await self._performer.perform(RestartNode(boot), note)
        except HardwareError as error:
            return not_restarted(f"the node does not restart: {words(error)}")
        await self._clock.sleep(_RESTART_S)
        return not_restarted(f"the node has not restarted within {_RESTART_S:.0f} s")

    async def _hooks(self, change: MigChange, name: str, note: Note | None) -> None:
        """Raises HardwareError: one of them failed, and the rest is not run."""
        variables = (
            ("MIG_PARTED_SELECTED_CONFIG", change.config),
            ("MIG_PARTED_MODE_CHANGE_ONLY", "false"),
            ("TONNAGE_MIG_GPUS", ",".join(shape.uuid for shape in change.goal)),
        )
        for place, hook in enumerate(change.host.hooks.get(name, ())):
            _LOG.info("MIG hook: node=%s hook=%s command=%s", self._node, name, hook.command)
            try:
                await self._performer.perform(RunHook(name, place, hook, variables), note)
            except HardwareError as error:
                problem = error.problems[0]
                where = f"hook {name} at {hook.where}" if hook.where else f"hook {name}"
                raise HardwareError(replace(problem, what=f"{where}: {problem.what}")) from None

    async def _stop(self, unit: str) -> None:
        """Raises HardwareError: it does not stop, or nobody knows."""
        arguments = ("show", "--property=ActiveState", "--value", "--", unit)
        state, sight = await self._performer.look(
            service_subject(unit), self._programs.ask("systemctl", arguments, timeout_s=_UNIT_S)
        )
        if state.strip() not in ("active", "activating", "reloading"):
            return
        async with self._turn:
            await self._recall()
            await self._keep((*(stopped for stopped in self.stopped if stopped != unit), unit))
        await self._performer.perform(StopService(unit), sight)
        _LOG.info("service stopped for a MIG change: node=%s unit=%s", self._node, unit)

    async def _start(self) -> None:
        """Start what was stopped, last first; what does not start is tried again later."""
        async with self._turn:
            await self._recall()
            for unit in reversed(self.stopped):
                try:
                    await self._performer.perform(StartService(unit))
                    await self._keep(tuple(stopped for stopped in self.stopped if stopped != unit))
                except HardwareError as error:
                    self._complain("MigServiceNotStarted", f"{unit} will be tried again: {words(error)}")

    async def _keep(self, stopped: tuple[str, ...]) -> None:
        await self._performer.perform(SaveCheckpoint(CHECKPOINT, msgspec.json.encode(stopped)))
        self.stopped = stopped

    def _complain(self, reason: str, text: str) -> None:
        _LOG.error("MIG change: node=%s %s", self._node, text)
        self._events.post("Warning", reason, text)
