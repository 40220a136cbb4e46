"""What kubelet is given: noted before it is given, and followed in kubelet's books from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.holds.hold_ledger import HoldLedger
from tonnage.agent.node_pods import NodePods
from tonnage.agent.plugin.kubelet_books import KubeletBooks
from tonnage.decide.node.ledger import LedgerEntry, Living, entries_of, unconfirmed
from tonnage.loop.ticks import next_beat
from tonnage.model.devices.sharing import Allocation
from tonnage.ports.node import KubeletHolds

_HUSH_S: Final = 0.2
_LISTED_S: Final = 0.005
_LONGEST_HUSH_S: Final = 2.0
_QUICK_S: Final = 0.3
_CALM_S: Final = 10.0
_LIVELY_S: Final = 3.0


class Holders:
    """Notes in the ledger what kubelet is given, and asks kubelet again and again what it has."""

    def __init__(
        self, context: AgentContext, board: NodeBoard, kubelet: KubeletHolds, ledger: HoldLedger
    ) -> None:
        self._clock = context.clock
        self._metrics = context.metrics
        self._board = board
        self._kubelet = kubelet
        self._ledger = ledger
        self._counted = asyncio.Event()
        self._pods = NodePods(context, on_change=self._pods_changed, on_census=self._counted.set)
        self._books = KubeletBooks(context, kubelet, self._pods)
        self._asking = asyncio.Lock()
        self._order = 1
        self._lively_until = 0.0
        self._hushed_until = 0.0
        self._allocating = 0
        self._listing = False
        self._soon = asyncio.Event()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Ask kubelet until cancelled."""
        await self._ledger.restore()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._tick())
            group.create_task(self._beat())
            group.create_task(self._recount())
            while True:
                self._metrics.turned("holders")
                await self._hush()
                self._listing = True  # nothing is awaited in between, so that nobody is hushed meanwhile
                try:
                    await self._ask()
                finally:
                    self._listing = False
                await self._soon.wait()
                self._soon.clear()

    async def take(self, allocations: Sequence[Allocation]) -> None:
        """Note allocations, safe from our own end. Raises HardwareError: do not answer."""

        def entries() -> Iterator[LedgerEntry]:
            kubelet = self._kubelet.identity() if self._pods.can_be_asked else ""
            now = self._clock.monotonic()
            for allocation in allocations:
                yield from entries_of(allocation, order=self._order, now=now, kubelet=kubelet)

        await self._ledger.take(entries)
        self._changed.set()

    def doubtful(self, resource: str) -> frozenset[str]:
        """Ids of which the kubelet that is there now has not shown that it knows who holds them."""
        pairs = unconfirmed(self._ledger.entries.values(), self._kubelet.identity(), self._living())
        return frozenset(slot for name, slot in pairs if name == resource)

    async def confirm(self, resource: str, ids: Set[str]) -> None:
        """Read kubelet's checkpoint anew before an answer about doubtful ids, so that `holds` is right."""
        entries = [entry for slot in ids if (entry := self._ledger.entries.get((resource, slot)))]
        if unconfirmed(entries, self._kubelet.identity()):
            await self._ask(listing=False)

    @contextmanager
    def hushed(self) -> Iterator[None]:
        """Leave kubelet's list alone while it allocates, and a little longer.

        To list, kubelet counts anew what pods that ended gave back, and then takes a device that it is just
        allocating for free: the next pod would get it too. Seen with kubelet 1.35.
        """
        self._allocating += 1
        try:
            yield
        finally:
            self._allocating -= 1
            self._hushed_until = self._clock.monotonic() + _HUSH_S

    async def listed(self) -> None:
        """Return once kubelet owes no list, so that none meets the allocation that follows."""
        patience = self._clock.monotonic() + _LONGEST_HUSH_S
        while self._listing and self._clock.monotonic() < patience:
            await self._clock.sleep(_LISTED_S)

    def _pods_changed(self) -> None:
        self._board.requested.publish(self._pods.requested())
        self._lively_until = self._clock.monotonic() + _LIVELY_S
        self._board.pods.publish(self._pods.identities())
        self._soon.set()

    async def _tick(self) -> None:
        """Wake the question: often while an answer is awaited, else now and then."""
        last_asked = self._clock.monotonic()
        while True:
            if self._awaited():
                await self._clock.sleep(_QUICK_S)
            else:
                self._changed.clear()
                await self._changed.wait()
            now = self._clock.monotonic()
            if self._awaited() or now - last_asked >= _CALM_S:
                last_asked = now
                self._soon.set()

    async def _beat(self) -> None:
        """Have it looked now and then whether an answer is awaited."""
        while True:
            await next_beat(self._clock)
            self._changed.set()

    def _awaited(self) -> bool:
        """Whether kubelet's next answer may change what is offered."""
        if not self._ledger.evidence.final or any(entry.is_open for entry in self._ledger.entries.values()):
            return True
        if self._books.restarted:
            return True
        offer = self._board.offer.value
        answered = self._pods.living() is not None and self._clock.monotonic() > self._lively_until
        return not answered and offer is not None and offer.contested

    async def _hush(self) -> None:
        """Return once kubelet allocates nothing and has written down what it got, or when that has no end."""
        patience = self._clock.monotonic() + _LONGEST_HUSH_S
        while (now := self._clock.monotonic()) < patience:
            hushed = self._allocating or now < self._hushed_until
            if not hushed and not self._is_unwritten(now):
                return
            await self._clock.sleep(_HUSH_S / 4)
            if not hushed:
                await self._ask(listing=False)

    def _is_unwritten(self, now: float) -> bool:
        """Whether a device was answered just now that kubelet's checkpoint does not show yet.

        On a busy node kubelet may take longer than a moment to note an answer.
        """
        return any(
            entry.is_open and now - entry.since < _LONGEST_HUSH_S for entry in self._ledger.entries.values()
        )

    async def _ask(self, *, listing: bool = True) -> None:
        async with self._asking:  # an older answer must not come after a newer one
            order, self._order = self._order, self._order + 1
            evidence = await self._books.read(self._ledger.evidence, order, listing=listing)
            await self._ledger.settle(evidence, self._pods.census, self._living())
        entries = self._ledger.entries.values()
        if listing and any(entry.never_shown and entry.order <= order for entry in entries):
            self._pods.count(order)

    async def _recount(self) -> None:
        """Follow each census: kubelet need not be asked again for it."""
        while True:
            await self._counted.wait()
            self._counted.clear()
            await self._ledger.settle(None, self._pods.census, self._living())

    def _living(self) -> Living | None:
        names = self._pods.living()
        return None if names is None else Living(names, self._pods.idle())
