"""The one ledger of what was given out on this node, kept on disk, and the holds that follow from it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.holds.ledger_file import ledger_bytes, ledger_of
from tonnage.decide.node.claims.claim_holders import claim_names, with_containers
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.ledger import (
    Census,
    Evidence,
    IdOwner,
    Ledger,
    LedgerEntry,
    Living,
    holds_of,
    noted_hold,
    settle,
)
from tonnage.model.actions.checkpoints import AddRow, SaveCheckpoint
from tonnage.model.devices.sharing import HoldKind
from tonnage.model.errors import HardwareError

_LOG: Final = logging.getLogger(__name__)
CHECKPOINT: Final = "allocations"
_MOST_PODS: Final = 5


class HoldLedger:
    """Publishes who holds which device.

    Whatever gives devices out notes them here, each entry with the kind of hold that it is, and decides by
    what the board says of all kinds. When a device of a device plugin is free again follows from kubelet's
    books (`settle`); entries of another kind are not kubelet's to end.

    `boot` identifies the machine's boot: no container outlives one.
    """

    def __init__(self, context: AgentContext, board: NodeBoard, *, boot: str = "") -> None:
        self._node = context.node
        self._clock = context.clock
        self._events = context.events
        self._checkpoints = context.checkpoints
        self._performer = context.performer
        self._board = board
        self._boot = boot
        self._lock = asyncio.Lock()
        self._entries: dict[tuple[str, str], LedgerEntry] = {}
        self._complaint = ""
        self._restored = False
        self.evidence = Evidence()
        """What kubelet said last."""
        self.answering = asyncio.Lock()
        """Held by who gives devices out, from the decision until it is noted here."""

    @property
    def entries(self) -> Mapping[tuple[str, str], LedgerEntry]:
        """Every entry by (resource, id)."""
        return self._entries

    async def restore(self) -> None:
        """What an earlier agent noted; read once."""
        if self._restored:
            return
        self._restored = True
        try:
            payload = await self._checkpoints.load(CHECKPOINT)
            if payload is not None:
                added = await self._checkpoints.load_added(CHECKPOINT)
                ledger = ledger_of(payload, self._boot, self._clock.monotonic(), added)
                self._entries = {(entry.resource, entry.id): entry for entry in ledger}
                self._publish(settled=False)
        except (HardwareError, ValueError) as error:
            _LOG.warning("ledger not usable: node=%s error=%s", self._node, error)

    async def take(self, entries: Callable[[], Iterable[LedgerEntry]]) -> None:
        """Note what is about to be given out, safe from our own end.

        `entries` are made once nothing else changes the ledger, so that their order is that of their writing.
        Only the new rows are written, unless all must be saved anew. Raises HardwareError: do not answer.
        """
        async with self._lock:
            noted = {(entry.resource, entry.id): entry for entry in entries()}
            rows = ledger_bytes(noted.values(), self._boot)
            if not await self._performer.perform(AddRow(CHECKPOINT, rows)):
                await self._save({**self._entries, **noted}.values())
            self._entries.update(noted)
            before = self._board.holds.value
            fresh = {slot: noted_hold(entry) for slot, entry in noted.items() if slot not in before.by_id}
            if fresh:
                holds = (*before.holds, *fresh.values())
                self._board.holds.publish(DeviceHolds(holds, before.settled, {**before.by_id, **fresh}))

    async def release(self, claim: str) -> None:
        """A claim, `namespace/name`, is over: what it held is free."""
        async with self._lock:
            remaining = {
                slot: entry
                for slot, entry in self._entries.items()
                if (entry.kind, entry.resource) != (HoldKind.CLAIM, claim)
            }
            if len(remaining) < len(self._entries):
                self._entries = remaining
                self._publish(settled=self._board.holds.value.settled)
                await self._shrink(tuple(remaining.values()))

    async def settle(self, evidence: Evidence | None, census: Census, living: Living | None) -> None:
        """Bring it up to date with what kubelet said now or, with None, last."""
        async with self._lock:
            self.evidence = evidence or self.evidence
            before = tuple(self._entries.values())
            ledger = settle(before, self.evidence, now=self._clock.monotonic(), census=census, living=living)
            forgotten = {slot for slot, entry in self._entries.items() if entry.forgotten}
            self._entries = {(entry.resource, entry.id): entry for entry in ledger}
            # Before the disk, which may be slow: what is given out meanwhile is decided by it.
            self._publish(settled=evidence is not None or self._board.holds.value.settled)
            if ledger == before:
                return
            lost = [
                entry for slot, entry in self._entries.items() if entry.forgotten and slot not in forgotten
            ]
            if lost:
                self._report(lost)
            await self._shrink(ledger)

    def _publish(self, *, settled: bool) -> None:
        holds = holds_of(self.evidence, tuple(self._entries.values()))
        inventory = self._board.inventory.value
        if self.evidence.claims and inventory is not None:
            holds = with_containers(holds, self.evidence.claims, claim_names(inventory))
        before = self._board.holds.value
        if holds == before.holds:  # the same objects: what was made of them need not be made again
            self._board.holds.publish(DeviceHolds(before.holds, settled, before.by_id))
        else:
            self._board.holds.publish(DeviceHolds.of(holds, settled=settled))

    async def _shrink(self, ledger: Ledger) -> None:
        try:
            await self._save(ledger)
        except HardwareError as error:  # the older file only remembers more
            if str(error) != self._complaint:
                self._complaint = str(error)
                _LOG.warning("ledger not written: node=%s error=%s", self._node, error)

    def _report(self, entries: Sequence[LedgerEntry]) -> None:
        """Say whose devices kubelet forgot."""
        pods = sorted({_pod_name(entry.owner) for entry in entries})
        _LOG.warning("kubelet forgot holders: node=%s devices=%d pods=%s", self._node, len(entries), pods)
        shown = ", ".join(pods[:_MOST_PODS]) + (" and others" if len(pods) > _MOST_PODS else "")
        text = f"kubelet lost its checkpoint and forgot which devices {shown} hold; no other pod gets them"
        self._events.post("Warning", "HoldersForgotten", text)

    async def _save(self, entries: Iterable[LedgerEntry]) -> None:
        # Nothing in it outlives the machine's boot: neither what kubelet did not write down, nor containers.
        ledger = ledger_bytes(entries, self._boot)
        await self._performer.perform(SaveCheckpoint(CHECKPOINT, ledger, lasting=False))


def _pod_name(owner: IdOwner) -> str:
    pod = owner.pod or owner.uid
    return f"{owner.namespace}/{pod}" if pod else "a pod not yet named"
