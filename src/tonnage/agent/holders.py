"""Who holds which device: kubelet asked again and again, and a ledger of what was answered in between."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tonnage.adapters.ports import KubeletHolds, Shown
from tonnage.agent.node_pods import NodePods
from tonnage.agent.world import World
from tonnage.decide.node.ledger import Entry, Evidence, Ledger, gather, holds_of, record, settle
from tonnage.model.errors import ClusterError, HardwareError
from tonnage.model.sharing import Allocation, Hold

_LOG: Final = logging.getLogger(__name__)
CHECKPOINT: Final = "allocations"
_QUICK_S: Final = 0.3
_CALM_S: Final = 3.0
_LIVELY_S: Final = 3.0
_SETTLE_S: Final = 10.0
"""How long a kubelet that has just appeared may still be reading its pods, where nobody says which it has."""


class Holders:
    """Keeps `holds` up to date; `known` once kubelet was asked, even if it is silent."""

    def __init__(self, world: World, kubelet: KubeletHolds, *, on_change: Callable[[], None]) -> None:
        self._node = world.node
        self._clock = world.clock
        self._checkpoints = world.checkpoints
        self._metrics = world.metrics
        self._kubelet = kubelet
        self._pods = NodePods(world, on_change=self._pods_changed)
        self._on_change = on_change
        self._lock = asyncio.Lock()
        self._evidence = Evidence()
        self._ledger: Ledger = ()
        self._order = 1
        self._identity = ""
        self._appeared = 0.0
        self._caught_up = False
        self._lively_until = 0.0
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
            group.create_task(self._pods.run())
            group.create_task(self._tick())
            while True:
                self._metrics.turned("holders")
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

    def _pods_changed(self) -> None:
        self._lively_until = self._clock.monotonic() + _LIVELY_S
        self._soon.set()

    async def _tick(self) -> None:
        """Wake the question: often while an answer is awaited, else now and then."""
        calm = 0.0
        while True:
            await self._clock.sleep(_QUICK_S)
            calm += _QUICK_S
            if self._awaited() or calm >= _CALM_S:
                calm = 0.0
                self._soon.set()

    def _awaited(self) -> bool:
        """Whether kubelet's next answer may change what is offered."""
        if not self._evidence.final or any(not entry.seen for entry in self._ledger):
            return True
        told = self._pods.living() is not None and self._clock.monotonic() > self._lively_until
        return self.contested and not told

    async def _ask(self) -> None:
        order, self._order = self._order, self._order + 1
        identity = self._kubelet.identity()
        shown = await self._shown()
        settled = shown is not None and self._settled(shown, identity)
        checkpoint = await self._checkpoint()
        reserved = checkpoint and self._reserved(checkpoint, final=settled)
        async with self._lock:
            before = self.holds
            listed = None if shown is None else shown.holds
            self._evidence = gather(self._evidence, listed, reserved, order=order, settled=settled)
            now = self._clock.monotonic()
            ledger = settle(self._ledger, self._evidence, now=now, census=self._pods.census)
            if ledger != self._ledger:
                self._ledger = ledger
                try:
                    await self._save(ledger)
                except HardwareError as error:  # the older file only remembers more
                    self._complain("ledger not written", str(error))
        if any(not entry.seen and entry.order <= order for entry in ledger):
            self._pods.count(order)
        if not self.known or self.holds != before:
            self.known = True
            self._on_change()

    async def _shown(self) -> Shown | None:
        try:
            shown = await self._kubelet.shown()
        except ClusterError as error:
            self._complain("kubelet silent", str(error))
            return None
        self._complain("kubelet silent", "")
        return shown

    async def _checkpoint(self) -> tuple[Hold, ...] | None:
        try:
            checkpoint = await self._kubelet.checkpoint()
        except HardwareError as error:
            self._complain("kubelet's checkpoint not readable", str(error))
            return None
        self._complain("kubelet's checkpoint not readable", "")
        return checkpoint

    def _reserved(self, checkpoint: tuple[Hold, ...], *, final: bool) -> tuple[Hold, ...]:
        """What the checkpoint has for pods that may live.

        It keeps pods that ended. With nobody to ask which those are, kubelet's list alone counts once it is
        `final`; then an init container's devices are held for `UNSEEN_S` only.
        """
        over = self._pods.over(hold.pod for hold in checkpoint)
        if over is None:
            return () if final else checkpoint
        names = self._pods.living() or {}
        return tuple(
            replace(
                hold, namespace=names.get(hold.pod, ("", ""))[0], pod=names.get(hold.pod, ("", hold.pod))[1]
            )
            for hold in checkpoint
            if hold.pod not in over
        )

    def _settled(self, shown: Shown, asked: str) -> bool:
        """Whether kubelet has read its pods: it lists all that live here, or has had time enough."""
        identity, now = self._kubelet.identity(), self._clock.monotonic()
        if identity != self._identity:
            self._identity, self._appeared, self._caught_up = identity, now, False
        living = self._pods.living()
        if living is not None and shown.pods.issuperset(living.values()):
            self._caught_up = True
        if identity != asked:  # restarted meanwhile: which of them listed this is not known
            self._caught_up = False
            return False
        return bool(identity) and (self._caught_up or now - self._appeared >= _SETTLE_S)

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


def _named(hold: Hold, pod: tuple[str, str] | None) -> Hold:
    """The hold with the pod's name in place of its uid, if that is known."""
    return hold if pod is None else replace(hold, namespace=pod[0], pod=pod[1])
