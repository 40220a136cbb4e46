"""The node's devices as they are now and as they may be used, kept fresh from the vendor's backend."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.decide.node.health.checkpoint import health_from_json, health_json
from tonnage.decide.node.health.device_health import (
    next_look_s,
    offered_inventory,
    state_after_scan,
    unreadable,
)
from tonnage.decide.node.health.faults import HealthState, interrupted
from tonnage.decide.node.health.xids import state_after_event
from tonnage.decide.node.mig.devices_in_change import without_devices_in_change
from tonnage.loop.ticks import next_beat
from tonnage.model.actions.checkpoints import SaveCheckpoint
from tonnage.model.devices.health import HealthPolicy, SeenXid
from tonnage.model.devices.inventory import Inventory, RawEvent, RawEventKind
from tonnage.model.errors import ConfigError, HardwareError
from tonnage.model.json import parsed_json
from tonnage.ports.node import DeviceReader

_LOG: Final = logging.getLogger(__name__)
CHECKPOINT: Final = "device-health"
_TICK_S: Final = 1.0
_MOST_XIDS: Final = 1000
_PAUSE_S: Final = 0.1
"""After each scan and each write: errors may come in floods. They are shown without either."""
_SAVE_AGAIN_S: Final = 5.0


class NodeDevices:
    """Publishes the devices as they may be used (`board.inventory`), or why they cannot be read.

    An error that the driver reports counts at once, before the scan that follows it: that one may take long.
    Nothing is judged before there is a configuration: another policy than the node's would forget faults.
    """

    def __init__(self, context: AgentContext, board: NodeBoard, backend: DeviceReader) -> None:
        self._node = context.node
        self._clock = context.clock
        self._events = context.events
        self._metrics = context.metrics
        self._board = board
        self._backend = backend
        self._scanning = asyncio.Lock()
        self._judged_by: HealthPolicy | None = None
        self._memory = DeviceMemory(context)
        self._state = HealthState()
        self._scanned: Inventory | None = None
        """The last scan, if it succeeded."""
        self._dirty = asyncio.Event()
        self._due = 0.0
        # Judged within the change, so that whoever else is told of it sees the devices by it already.
        board.configuration.subscribe(self._judge_by_policy)
        board.withheld.subscribe(self._judge)

    async def run(self) -> None:
        """Scan, and scan again after every event and now and then, until cancelled."""
        self._state = await self._memory.restored()
        async with asyncio.TaskGroup() as group:
            await self._scan()
            group.create_task(self._tick())
            group.create_task(self._memory.run())
            group.create_task(self._listen())
            while True:
                await self._dirty.wait()
                self._dirty.clear()
                await self._scan()
                await self._clock.sleep(_PAUSE_S)

    async def rescan(self) -> None:
        """Return once devices that were changed are known as they are now."""
        await self._scan()

    def _policy(self) -> HealthPolicy | None:
        current = self._board.configuration.value
        return None if current is None else current.config.health

    def _judge_by_policy(self) -> None:
        """The policy may be another one now."""
        if self._policy() != self._judged_by:
            self._judge()

    async def _tick(self) -> None:
        while True:
            await next_beat(self._clock)
            if self._clock.monotonic() >= self._due:
                self._dirty.set()

    async def _listen(self) -> None:
        async for event in self._backend.events():
            if event.kind is RawEventKind.XID:
                self._count_xid(event)
            self._dirty.set()

    def _count_xid(self, event: RawEvent) -> None:
        """Count an Xid before the next scan; its device is unhealthy from here on."""
        _LOG.warning("device error: node=%s uuid=%s xid=%d", self._node, event.uuid, event.code)
        policy, now = self._policy() or HealthPolicy(), self._clock.monotonic()
        xid = SeenXid(event.uuid, event.code, now, event.gpu_instance)
        self._board.xids.publish((*self._board.xids.value, xid)[-_MOST_XIDS:])
        shown = self._board.inventory.value
        inventory = self._scanned or shown or Inventory()
        self._remember(state_after_event(self._state, event, inventory, policy, now=now))
        # Without a scan to apply it to the Xid is only remembered: the scan that follows shows it.
        if shown is not None and self._scanned is not None:
            self._show(offered_inventory(self._scanned, self._state))

    async def _scan(self) -> None:
        async with self._scanning:  # an older answer must not come after a newer one
            await self._scan_now()

    async def _scan_now(self) -> None:
        self._metrics.turned("devices")
        try:
            self._scanned = await self._backend.scan()
        except (HardwareError, ConfigError) as error:
            self._scanned = None
            self._due = self._clock.monotonic() + _TICK_S
            if str(error) != self._board.devices_error.value:
                _LOG.error("devices not readable, will retry: node=%s error=%s", self._node, error)
                self._events.post("Warning", "DevicesNotReadable", str(error))
            self._board.devices_error.publish(str(error))
            self._remember(interrupted(self._state))
            self._show(unreadable(self._board.inventory.value or Inventory(), error.problems[0].what))
        else:
            self._board.devices_error.publish("")
            self._judge()

    def _judge(self) -> None:
        """Judge the last scan by the policy in force, and publish what may be used of it."""
        policy, now = self._policy(), self._clock.monotonic()
        self._due = now + _TICK_S
        if policy is None or self._scanned is None:
            return
        self._judged_by = policy
        self._remember(state_after_scan(self._state, self._scanned, policy, now=now))
        self._due = now + next_look_s(self._state, policy, now=now)
        self._show(offered_inventory(self._scanned, self._state))

    def _remember(self, state: HealthState) -> None:
        self._state = state
        self._memory.keep(state)

    def _show(self, by_health: Inventory) -> None:
        """Publish it without what a MIG change withholds; subscribers are called before this returns."""
        before, usable = (
            self._board.inventory.value,
            without_devices_in_change(by_health, self._board.withheld.value),
        )
        if before != usable:
            self._report(before or Inventory(), usable)
        self._board.inventory.publish(usable)

    def _report(self, before: Inventory, after: Inventory) -> None:
        """Say what became unusable, usable, or left; nothing about parts of what is unusable as a whole."""
        old, new = _reasons(before), _reasons(after)
        for uuid, reason in new.items():
            if reason and not old.get(uuid):
                _LOG.warning("device unhealthy: node=%s uuid=%s reason=%s", self._node, uuid, reason)
                self._events.post("Warning", "DeviceUnhealthy", f"{uuid}: {reason}")
            elif not reason and old.get(uuid):
                _LOG.warning("device healthy again: node=%s uuid=%s", self._node, uuid)
                self._events.post("Normal", "DeviceHealthy", f"{uuid} is healthy again")
        for device in before.devices:
            if device.uuid not in new:
                _LOG.warning("device gone: node=%s uuid=%s", self._node, device.uuid)
                self._events.post("Warning", "DeviceGone", f"{device.uuid} is gone")


class DeviceMemory:
    """What is known of the devices' health, on disk: a restart of the agent heals nobody."""

    def __init__(self, context: AgentContext) -> None:
        self._node = context.node
        self._clock = context.clock
        self._checkpoints = context.checkpoints
        self._performer = context.performer
        self._events = context.events
        # Times on disk are wall times; one offset for the whole run keeps them the same from save to save.
        self._epoch = context.clock.now().timestamp() - context.clock.monotonic()
        self._state = HealthState()
        self._saved = b""
        self._complaint = ""
        self._news = asyncio.Event()

    async def restored(self) -> HealthState:
        """What was kept last; nothing when there is nothing that can be used."""
        try:
            payload = await self._checkpoints.load(CHECKPOINT)
            if payload is not None:
                self._state = health_from_json(
                    parsed_json(payload), epoch=self._epoch, now=self._clock.monotonic()
                )
        except (HardwareError, ValueError) as error:
            _LOG.warning("device health not usable: node=%s error=%s", self._node, error)
            self._events.post("Warning", "DeviceHealthForgotten", f"every device counts as new: {error}")
        return self._state

    def keep(self, state: HealthState) -> None:
        """The state to have on disk soon."""
        self._state = state
        self._news.set()

    async def run(self) -> None:
        """Write what is new until cancelled, then what is left. A disk that refuses is tried again."""
        try:
            while True:
                await self._news.wait()
                await self._clock.sleep(_PAUSE_S if await self._save() else _SAVE_AGAIN_S)
        finally:
            await self._save()  # also what was being saved when it was cancelled

    async def _save(self) -> bool:
        """Whether the state is on disk."""
        self._news.clear()
        payload = json.dumps(health_json(self._state, epoch=self._epoch)).encode()
        if payload == self._saved:
            return True
        try:
            await self._performer.perform(SaveCheckpoint(CHECKPOINT, payload))
        except HardwareError as error:
            self._news.set()
            if str(error) != self._complaint:
                self._complaint = str(error)
                _LOG.warning("device health not kept on disk: node=%s error=%s", self._node, error)
            return False
        self._saved, self._complaint = payload, ""
        return True


def _reasons(inventory: Inventory) -> dict[str, str]:
    """Why each device may not be used, empty where it may; and so of the parts of those that may."""
    reasons: dict[str, str] = {}
    for device in inventory.devices:
        reasons[device.uuid] = "" if device.healthy else device.reason or "unhealthy"
        if device.healthy:
            reasons |= {mig.uuid: "" if mig.healthy else mig.reason or "unhealthy" for mig in device.migs}
    return reasons
