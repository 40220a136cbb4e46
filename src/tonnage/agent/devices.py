"""The node's devices as they are now, kept fresh from the vendor's backend."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from tonnage.adapters.ports import DeviceBackend
from tonnage.agent.world import World
from tonnage.decide.node.health import Marks, judged, marked, unreadable
from tonnage.model.devices import Inventory, RawEventKind
from tonnage.model.errors import ConfigError, HardwareError

_LOG: Final = logging.getLogger(__name__)
_RESCAN_S: Final = 10.0
_RETRY_S: Final = 1.0


class NodeDevices:
    """Keeps `inventory` up to date; None until the first scan. `on_change` is called after it changed."""

    def __init__(self, world: World, backend: DeviceBackend, *, on_change: Callable[[], None]) -> None:
        self._node = world.node
        self._clock = world.clock
        self._events = world.events
        self._metrics = world.metrics
        self._backend = backend
        self._on_change = on_change
        self._marks: Marks = {}
        self._dirty = asyncio.Event()
        self.error = ""
        """Why the devices cannot be read; empty when they can."""
        self.inventory: Inventory | None = None

    async def run(self) -> None:
        """Scan, and scan again after every event and now and then, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick())
            await self._scan()
            group.create_task(self._listen())
            while True:
                await self._dirty.wait()
                self._dirty.clear()
                await self._scan()

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(_RETRY_S if self.error else _RESCAN_S)
            self._dirty.set()

    async def _listen(self) -> None:
        async for event in self._backend.events():
            if event.kind is RawEventKind.XID:
                _LOG.warning("device error: node=%s uuid=%s xid=%d", self._node, event.uuid, event.code)
                self._marks = marked(self._marks, event, self.inventory or Inventory())
            self._dirty.set()

    async def _scan(self) -> None:
        self._metrics.turned("devices")
        try:
            scanned = await self._backend.scan()
        except (HardwareError, ConfigError) as error:
            if str(error) != self.error:
                self.error = str(error)
                _LOG.error("devices not readable: node=%s error=%s", self._node, error)
                self._events.post("Warning", "DevicesNotReadable", self.error)
            self._show(unreadable(self.inventory or Inventory(), error.problems[0].what))
        else:
            self.error = ""
            fresh, self._marks = judged(scanned, self._marks)
            self._show(fresh)

    def _show(self, fresh: Inventory) -> None:
        before, self.inventory = self.inventory, fresh
        if before == fresh:
            return
        self._report(before or Inventory(), fresh)
        self._on_change()

    def _report(self, before: Inventory, after: Inventory) -> None:
        """Say which devices became unusable, usable, or left."""
        old = {device.uuid: device for device in before.devices}
        for device in after.devices:
            known = old.pop(device.uuid, None)
            if not device.healthy and (known is None or known.healthy):
                _LOG.warning(
                    "device unhealthy: node=%s uuid=%s reason=%s", self._node, device.uuid, device.reason
                )
                self._events.post("Warning", "DeviceUnhealthy", f"{device.uuid}: {device.reason}")
            elif device.healthy and known is not None and not known.healthy:
                _LOG.warning("device healthy again: node=%s uuid=%s", self._node, device.uuid)
                self._events.post("Normal", "DeviceHealthy", f"{device.uuid} is healthy again")
        for uuid in old:
            _LOG.warning("device gone: node=%s uuid=%s", self._node, uuid)
            self._events.post("Warning", "DeviceGone", f"{uuid} is gone")
