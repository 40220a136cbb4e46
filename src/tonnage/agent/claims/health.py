"""Tells kubelet how the devices of claims are, when that changes and now and then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.claims.devices import ClaimableDevices
from tonnage.agent.context import AgentContext
from tonnage.agent.holds.claim_book import ClaimBook
from tonnage.decide.node.claims.health import health_reports
from tonnage.model.devices.claims import HealthReport
from tonnage.ports.clock import Clock

REPEAT_S: Final = 20.0
"""A device of which kubelet hears nothing for three times as long has an unknown health there."""


class ClaimHealth:
    """Streams of reports; every one has all devices that the node offers to claims, or that claims have."""

    def __init__(
        self, context: AgentContext, board: NodeBoard, devices: ClaimableDevices, book: ClaimBook
    ) -> None:
        self._node = context.node
        self._clock: Clock = context.clock
        self._board = board
        self._devices = devices
        self._book = book
        self._streams: set[asyncio.Event] = set()
        for topic in (board.inventory, board.configuration, board.holds):
            topic.subscribe(self._on_change)

    async def reports(self) -> AsyncIterator[tuple[HealthReport, ...]]:
        """What is so now, again when it changes, and again after `REPEAT_S`. It never ends by itself."""
        changed = asyncio.Event()
        self._streams.add(changed)
        try:
            sent: tuple[HealthReport, ...] | None = None
            due = self._clock.monotonic()
            while True:
                changed.clear()
                reports = self._reports()
                if reports != sent or self._clock.monotonic() >= due:
                    due = self._clock.monotonic() + REPEAT_S
                    sent = reports
                    yield reports
                await self._news(changed, due)
        finally:
            self._streams.discard(changed)

    def _reports(self) -> tuple[HealthReport, ...]:
        devices, inventory = self._devices.current(), self._board.inventory.value
        return health_reports(devices or (), self._node, self._book.current_claims(), inventory)

    async def _news(self, changed: asyncio.Event, due: float) -> None:
        """Return once something changed, or it is time to say it again."""
        wake = asyncio.ensure_future(changed.wait())
        alarm = asyncio.ensure_future(self._clock.sleep(max(0.0, due - self._clock.monotonic())))
        try:
            await asyncio.wait((wake, alarm), return_when=asyncio.FIRST_COMPLETED)
        finally:
            wake.cancel()
            alarm.cancel()

    def _on_change(self) -> None:
        for changed in self._streams:
            changed.set()
