"""The control daemons of MPS: started, watched, replaced and ended as devices and configuration want them."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import nullcontext, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.decide.node.choose_config import ConfigInForce
from tonnage.decide.node.mps.checkpoint import daemons_from_json, daemons_json
from tonnage.decide.node.mps.daemons import daemons_of
from tonnage.decide.node.mps.steps import (
    DaemonState,
    QueryDaemon,
    Step,
    answered,
    died,
    next_steps,
    pause_s,
    silent,
    started,
)
from tonnage.decide.node.share import share
from tonnage.loop.ticks import next_beat
from tonnage.model.actions.checkpoints import SaveCheckpoint
from tonnage.model.actions.devices import SetComputeMode
from tonnage.model.actions.mps import MarkReady, StartDaemon, StopDaemon
from tonnage.model.devices.inventory import ComputeMode, Inventory
from tonnage.model.devices.mps import MpsDaemon, MpsState
from tonnage.model.errors import HardwareError
from tonnage.model.json import parsed_json
from tonnage.model.names import ResourceName
from tonnage.model.node.condition_report import ConditionReport
from tonnage.ports.node import MpsView

_LOG: Final = logging.getLogger(__name__)
CHECKPOINT: Final = "mps"
_LONGEST: Final = 500
_ENDING_S: Final = 4.0
"""For all daemons together, when the agent ends: its own end has a deadline, too."""


class NodeMps:
    """Keeps daemons like the configuration, and publishes how every daemon stands.

    Which daemons may have left something on the node is on disk before anything is done for them, so that
    the agent that comes after one that was killed gives devices back that nobody wants to share any more.
    """

    def __init__(self, context: AgentContext, board: NodeBoard, daemons: MpsView) -> None:
        self._node = context.node
        self._clock = context.clock
        self._checkpoints = context.checkpoints
        self._events = context.events
        self._performer = context.performer
        self._board = board
        self._daemons = daemons
        self._wake = asyncio.Event()
        self._recalled = False
        """Whether it is known what an earlier agent left."""
        self._used = False
        self._basis: tuple[Inventory, ConfigInForce] | None = None
        self._wants: tuple[MpsDaemon, ...] = ()
        self._saved = b""
        self._saving = asyncio.Lock()
        self._marking = asyncio.Lock()
        self._standing: dict[ResourceName, DaemonState] = {}
        self._marked: dict[str, bool] = {}
        for topic in (board.inventory, board.devices_error, board.configuration, board.claim_daemons):
            topic.subscribe(self._wake.set)
        board.holds.subscribe(self._look_at_holds)

    def _look_at_holds(self) -> None:
        """Where nothing is shared through MPS, holds are nothing to it: they change with every Allocate."""
        if self._basis is None or self._standing:
            self._wake.set()

    def _condition(self) -> ConditionReport:
        """The condition `MPSReady`; nothing is said on a node that never shared devices through MPS."""
        if not self._used:
            return ConditionReport("Unknown", "MPSNeverUsed")
        states = self._board.mps.value
        failing = [f"{state.daemon.subject}: {state.why}" for state in states.values() if state.why]
        if failing:
            return ConditionReport("False", "MPSDaemonNotReady", "; ".join(failing))
        if not states:
            return ConditionReport("True", "MPSNotUsed", "no resource or claim is shared through MPS")
        served = sorted(state.daemon.subject for state in states.values())
        return ConditionReport("True", "MPSDaemonsReady", f"serving {', '.join(served)}")

    async def run(self) -> None:
        """Run until cancelled; then end every daemon and give the devices back."""
        await self._restore()
        self._daemons.watch(self._wake.set)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tick())
                while True:
                    self._turn(group)
                    await self._wake.wait()
                    self._wake.clear()
        finally:
            await self._end()

    async def _tick(self) -> None:
        """Pauses end by themselves, and a daemon may end where the system tells nobody."""
        while True:
            await next_beat(self._clock)
            now = self._clock.monotonic()
            if any(
                now >= standing.due_at or self._ended(standing)
                for standing in self._standing.values()
                if not standing.busy
            ):
                self._wake.set()

    def _ended(self, standing: DaemonState) -> str:
        return self._daemons.ended(standing.daemon) if standing.alive else ""

    def _turn(self, group: asyncio.TaskGroup) -> None:
        """Begin what is to be done now."""
        for name, standing in tuple(self._standing.items()):
            if not standing.busy and (why := self._ended(standing)):
                self._put(name, died(standing, why[:_LONGEST], now=self._clock.monotonic()))
        daemons = self._required()
        if daemons is None:
            return
        held = self._board.holds.value.resources
        now = self._clock.monotonic()
        for step in next_steps(daemons, self._standing, held, now=now):
            name = step.daemon.resource
            before = self._standing.get(name) or DaemonState(step.daemon)
            daemon = step.daemon if isinstance(step, StartDaemon) else before.daemon
            self._used = True
            self._put(name, replace(before, daemon=daemon, busy=True))
            group.create_task(self._take(step))
        for root in {daemon.root for daemon in daemons}:
            ready = all(self._serves(daemon) for daemon in daemons if daemon.root == root)
            if self._marked.get(root) != ready:
                self._marked[root] = ready
                group.create_task(self._mark(root))

    def _required(self) -> tuple[MpsDaemon, ...] | None:
        """None while it is not known what is wanted, what was left, or which devices there are."""
        board = self._board
        inventory, config = board.inventory.value, board.configuration.value
        if inventory is None or config is None or board.devices_error.value:
            return None
        if not self._recalled or not board.holds.value.settled:
            return None
        if self._basis is None or self._basis[0] is not inventory or self._basis[1] is not config:
            self._basis = inventory, config
            self._wants = daemons_of(share(inventory, config.config), inventory, config.config)
        return (*self._wants, *board.claim_daemons.value)

    async def _mark(self, root: str) -> None:
        async with self._marking:
            await self._performer.perform(MarkReady(root, self._marked[root]))

    def _serves(self, daemon: MpsDaemon) -> bool:
        state = self._board.mps.value.get(daemon.resource)
        return state is not None and not state.why and state.daemon.like(daemon)

    async def _take(self, step: Step) -> None:
        """Take one step; what comes of it is in `standing`."""
        name = step.daemon.resource
        before = self._standing[name]
        after: DaemonState | None = None
        try:
            match step:
                case StartDaemon(daemon):
                    await self._start(daemon)
                    after = started(before, now=self._clock.monotonic())
                case QueryDaemon(daemon):
                    await self._ask(daemon)
                    after = answered(before, now=self._clock.monotonic())
                case StopDaemon(daemon):
                    await self._stop(daemon)
        except HardwareError as error:
            problem = error.problems[0]
            why = ": ".join(part for part in (problem.what, *problem.why.splitlines()) if part)
            after = self._failed(step, before, why[:_LONGEST])
        if after is None:
            self._standing.pop(name)
            self._publish(name, before.state, None)
            await self._forget()
        else:
            self._put(name, replace(after, busy=False))
        self._wake.set()

    def _failed(self, step: Step, before: DaemonState, why: str) -> DaemonState:
        now = self._clock.monotonic()
        if isinstance(step, QueryDaemon):
            return silent(before, why, now=now)
        if isinstance(step, StopDaemon):
            subject = before.daemon.subject
            _LOG.warning("MPS daemon not ended: node=%s subject=%s why=%s", self._node, subject, why)
            failures = before.failures + 1
            return replace(
                before, alive=False, ready=False, why=why, failures=failures, due_at=now + pause_s(failures)
            )
        return died(before, why, now=now)

    async def _start(self, daemon: MpsDaemon) -> None:
        await self._save()  # first: whoever comes after a crash must know of it
        await self._set(daemon, ComputeMode.EXCLUSIVE_PROCESS)
        await self._performer.perform(StartDaemon(daemon))

    async def _ask(self, daemon: MpsDaemon) -> None:
        """Whether it serves, and is alone on its devices: a driver that is loaded anew forgets the mode."""
        await self._daemons.ask(daemon)
        await self._set(daemon, ComputeMode.EXCLUSIVE_PROCESS)

    async def _stop(self, daemon: MpsDaemon) -> None:
        await self._performer.perform(StopDaemon(daemon))
        await self._set(daemon, ComputeMode.DEFAULT)

    async def _set(self, daemon: MpsDaemon, mode: ComputeMode) -> None:
        """The mode of its devices. One that is faulty may refuse: what heals it sets its mode back, too."""
        inventory = self._board.inventory.value or Inventory()
        healthy = {device.uuid: device.healthy for device in inventory.devices}
        for device in daemon.devices:
            if device.uuid in healthy:
                with nullcontext() if healthy[device.uuid] else suppress(HardwareError):
                    await self._performer.perform(SetComputeMode(device.uuid, mode))

    def _put(self, name: ResourceName, after: DaemonState) -> None:
        before = self._standing.get(name)
        self._standing[name] = after
        self._publish(name, before.state if before else None, after.state)

    def _publish(self, name: ResourceName, before: MpsState | None, after: MpsState | None) -> None:
        """Let others know how a daemon stands, if that changed."""
        states_before = self._board.mps.value
        if before == after and name in states_before:
            return
        states = {other: state for other, state in states_before.items() if other != name}
        if after is not None and (before is None or before.why != after.why):
            self._report(before, after)
        self._board.mps.publish(MappingProxyType(states if after is None else {**states, name: after}))
        self._board.mps_condition.publish(self._condition())

    def _report(self, before: MpsState | None, after: MpsState) -> None:
        daemon, subject = after.daemon, after.daemon.subject
        if not after.why:
            _LOG.info(
                "MPS daemon serves: node=%s subject=%s devices=%d threads_percent=%d",
                *(self._node, subject, len(daemon.devices), daemon.threads_percent),
            )
            self._events.post("Normal", "MpsDaemonReady", f"{subject} is served by its MPS control daemon")
        elif before is not None:
            _LOG.warning(
                "MPS daemon does not serve: node=%s subject=%s why=%s", self._node, subject, after.why
            )
            self._events.post("Warning", "MpsDaemonNotReady", f"{subject}: {after.why}")

    async def _end(self) -> None:
        """End daemons in order, side by side; what cannot be ended in time is killed, and left on disk."""
        ending = asyncio.ensure_future(self._end_daemons())
        deadline = asyncio.ensure_future(self._clock.sleep(_ENDING_S))
        try:
            await asyncio.wait((ending, deadline), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            deadline.cancel()
        await asyncio.wait((ending, deadline))
        if not ending.cancelled():
            ending.result()

    async def _end_daemons(self) -> None:
        async def end_daemon(standing: DaemonState) -> ResourceName | None:
            try:
                await self._stop(standing.daemon)
            except HardwareError as error:
                _LOG.warning("MPS daemon not ended: node=%s error=%s", self._node, error)
                return None
            return standing.daemon.resource

        for name in await asyncio.gather(*(end_daemon(state) for state in self._standing.values())):
            if name is not None:
                del self._standing[name]
        await self._forget()

    async def _restore(self) -> None:
        """What an earlier agent may have left is standing, dead."""
        left: tuple[MpsDaemon, ...] = ()
        try:
            payload = await self._checkpoints.load(CHECKPOINT)
            if payload is not None:
                self._used, left = True, daemons_from_json(parsed_json(payload))
        except (HardwareError, ValueError, KeyError, TypeError) as error:
            _LOG.warning("earlier MPS daemons unknown: node=%s error=%s", self._node, error)
        self._standing = {daemon.resource: DaemonState(daemon) for daemon in left}
        self._recalled = True
        self._board.mps_condition.publish(self._condition())

    async def _forget(self) -> None:
        """What is gone need not be remembered; the next agent would look for it in vain, and no worse."""
        try:
            await self._save()
        except HardwareError as error:
            _LOG.warning("MPS daemons not kept on disk: node=%s error=%s", self._node, error)

    async def _save(self) -> None:
        """Raises HardwareError: it is not on disk."""
        async with self._saving:
            payload = json.dumps(
                daemons_json(standing.daemon for standing in self._standing.values())
            ).encode()
            if payload != self._saved:
                await self._performer.perform(SaveCheckpoint(CHECKPOINT, payload))
                self._saved = payload
