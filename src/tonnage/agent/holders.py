"""Who holds which device: kubelet asked again and again, and a ledger of what was answered in between."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from typing import Final

from tonnage.adapters.ports import KubeletHolds
from tonnage.agent.world import World
from tonnage.decide.node.ledger import Entry, Evidence, Ledger, gather, holds_of, record, settle
from tonnage.model.errors import ClusterError, HardwareError
from tonnage.model.sharing import Allocation, Hold

_LOG: Final = logging.getLogger(__name__)
CHECKPOINT: Final = "allocations"
_QUICK_S: Final = 0.3
_CALM_S: Final = 3.0
_SETTLE_S: Final = 10.0
"""How long a kubelet that has just appeared may still be reading its pods from the API server."""


class Holders:
    """Keeps `holds` up to date; `known` once kubelet was asked, even if it is silent."""

    def __init__(self, world: World, kubelet: KubeletHolds, *, on_change: Callable[[], None]) -> None:
        self._node = world.node
        self._clock = world.clock
        self._checkpoints = world.checkpoints
        self._kubelet = kubelet
        self._on_change = on_change
        self._lock = asyncio.Lock()
        self._evidence = Evidence()
        self._ledger: Ledger = ()
        self._order = 1
        self._identity = ""
        self._appeared = 0.0
        self._complaints: dict[str, str] = {}
        self._soon = asyncio.Event()
        self.known = False
        self.contested = False
        """Set by who sees that a hold keeps a device from being offered: then its end is wanted soon."""

    @property
    def holds(self) -> tuple[Hold, ...]:
        """Every hold, newest knowledge."""
        return holds_of(self._evidence, self._ledger)

    async def run(self) -> None:
        """Ask kubelet until cancelled."""
        await self._restore()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick())
            while True:
                await self._ask()
                await self._soon.wait()
                self._soon.clear()

    async def take(self, allocations: Sequence[Allocation]) -> None:
        """Note allocations; on disk when this returns. Raises HardwareError: do not answer then."""
        async with self._lock:
            ledger = self._ledger
            for allocation in allocations:
                ledger = record(ledger, allocation, order=self._order, now=self._clock.monotonic())
            await self._save(ledger)
            self._ledger = ledger

    async def _tick(self) -> None:
        """Wake the question: often while an answer is awaited, else now and then."""
        calm = 0.0
        while True:
            await self._clock.sleep(_QUICK_S)
            calm += _QUICK_S
            unseen = any(not entry.seen for entry in self._ledger)
            if unseen or self.contested or not self._evidence.final or calm >= _CALM_S:
                calm = 0.0
                self._soon.set()

    async def _ask(self) -> None:
        order, self._order = self._order, self._order + 1
        settled = self._settled()
        shown: tuple[Hold, ...] | None
        try:
            shown = await self._kubelet.shown()
        except ClusterError as error:
            shown = None
            self._complain("kubelet silent", str(error))
        else:
            self._complain("kubelet silent", "")
        checkpoint: tuple[Hold, ...] = ()
        if shown is None or not settled:
            try:
                checkpoint = await self._kubelet.checkpoint()
            except HardwareError as error:
                self._complain("kubelet's checkpoint not readable", str(error))
            else:
                self._complain("kubelet's checkpoint not readable", "")
        async with self._lock:
            before = self.holds
            self._evidence = gather(self._evidence, shown, checkpoint, order=order, settled=settled)
            ledger = settle(self._ledger, self._evidence, now=self._clock.monotonic())
            if ledger != self._ledger:
                self._ledger = ledger
                try:
                    await self._save(ledger)
                except HardwareError as error:  # the older file only remembers more
                    self._complain("ledger not written", str(error))
        if not self.known or self.holds != before:
            self.known = True
            self._on_change()

    def _settled(self) -> bool:
        identity, now = self._kubelet.identity(), self._clock.monotonic()
        if identity != self._identity:
            self._identity, self._appeared = identity, now
        return bool(identity) and now - self._appeared >= _SETTLE_S

    def _complain(self, what: str, error: str) -> None:
        """Log a complaint once, until it changes or is over (an empty error)."""
        if error and error != self._complaints.get(what):
            _LOG.warning("%s: node=%s error=%s", what, self._node, error)
        self._complaints[what] = error

    async def _save(self, ledger: Ledger) -> None:
        rows = [{"resource": entry.resource, "id": entry.id, "seen": entry.seen} for entry in ledger]
        await self._checkpoints.save(CHECKPOINT, json.dumps(rows).encode())

    async def _restore(self) -> None:
        try:
            payload = await self._checkpoints.load(CHECKPOINT)
            rows = json.loads(payload) if payload else []
            now = self._clock.monotonic()
            self._ledger = tuple(
                Entry(str(row["resource"]), str(row["id"]), 0, now, seen=bool(row["seen"])) for row in rows
            )
        except (HardwareError, ValueError, KeyError, TypeError) as error:
            _LOG.warning("ledger not usable: node=%s error=%s", self._node, error)
