"""Who holds which device: kubelet asked again and again, and a ledger of what was answered in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from tonnage.agent.node_pods import NodePods
from tonnage.agent.plugin.ledger_file import ledger_bytes, ledger_of
from tonnage.agent.world import World
from tonnage.decide.node.ledger import (
    Entry,
    Evidence,
    Living,
    Owner,
    entries_of,
    gather,
    holds_of,
    settle,
    unconfirmed,
)
from tonnage.loop.ticks import next_beat
from tonnage.model.actions.checkpoints import AddRow, SaveCheckpoint
from tonnage.model.devices.sharing import Allocation, Hold
from tonnage.model.errors import ClusterError, HardwareError
from tonnage.ports.node import KubeletHolds, Shown

_LOG: Final = logging.getLogger(__name__)
CHECKPOINT: Final = "allocations"
_MOST_PODS: Final = 5
_HUSH_S: Final = 0.2
_LONGEST_HUSH_S: Final = 2.0
_QUICK_S: Final = 0.3
_CALM_S: Final = 10.0
_LIVELY_S: Final = 3.0
_SETTLE_S: Final = 10.0
"""How long a kubelet that has just appeared may still be reading its pods, where nobody says which it has."""


class Holders:
    """Keeps `holds` up to date; `known` once kubelet was asked, even if it is silent.

    `boot` identifies the machine's boot: no container outlives one.
    """

    def __init__(
        self, world: World, kubelet: KubeletHolds, *, on_change: Callable[[], None], boot: str = ""
    ) -> None:
        self._node = world.node
        self._boot = boot
        self._events = world.events
        self._clock = world.clock
        self._checkpoints = world.checkpoints
        self._performer = world.performer
        self._metrics = world.metrics
        self._kubelet = kubelet
        self._counted = asyncio.Event()
        self._pods = NodePods(world, on_change=self._pods_changed, on_census=self._counted.set)
        self._on_change = on_change
        self._lock = asyncio.Lock()
        self._asking = asyncio.Lock()
        self._evidence = Evidence()
        self._ledger: dict[tuple[str, str], Entry] = {}
        self._holds: tuple[Hold, ...] = ()
        self._held: dict[tuple[str, str], Hold] = {}
        self._order = 1
        self._identity = ""
        self._asked = ""
        """The kubelet that was asked last."""
        self._appeared = 0.0
        self._caught_up = False
        self._lively_until = 0.0
        self._hushed_until = 0.0
        self._allocating = 0
        self._complaints: dict[str, str] = {}
        self._soon = asyncio.Event()
        self._taken = asyncio.Event()
        self.known = False
        self.answering = asyncio.Lock()
        """Held by who gives devices out, from the decision until it is noted here."""
        self.contested = False
        """Set by who sees that a hold keeps a device from being offered: then its end is wanted soon."""

    @property
    def holds(self) -> tuple[Hold, ...]:
        """Every hold, newest knowledge; the same tuple as long as nothing changes."""
        return self._holds

    @property
    def held(self) -> Mapping[tuple[str, str], Hold]:
        """The hold of each (resource, id) that is held."""
        return self._held

    async def run(self) -> None:
        """Ask kubelet until cancelled."""
        await self._restore()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._tick())
            group.create_task(self._recount())
            while True:
                self._metrics.turned("holders")
                await self._hush()
                await self._ask()
                await self._soon.wait()
                self._soon.clear()

    async def take(self, allocations: Sequence[Allocation]) -> bool:
        """Note allocations, safe from our own end; whether that changes `holds`.

        Only the new rows are written, unless all must be saved anew. Raises HardwareError: do not answer.
        """
        async with self._lock:
            kubelet = self._kubelet.identity() if self._pods.can_be_asked else ""
            now = self._clock.monotonic()
            entries = {
                (entry.resource, entry.id): entry
                for allocation in allocations
                for entry in entries_of(allocation, order=self._order, now=now, kubelet=kubelet)
            }
            rows = ledger_bytes(entries.values(), self._boot)
            if not await self._performer.perform(AddRow(CHECKPOINT, rows)):
                await self._save({**self._ledger, **entries}.values())
            self._ledger.update(entries)
            fresh = {slot: Hold(slot[0], (slot[1],)) for slot in entries if slot not in self._held}
            self._holds += tuple(fresh.values())
            self._held.update(fresh)
        self._taken.set()
        return bool(fresh)

    def doubtful(self, resource: str) -> frozenset[str]:
        """Ids of which the kubelet that is there now has not shown that it knows who holds them."""
        pairs = unconfirmed(self._ledger.values(), self._kubelet.identity(), self._living())
        return frozenset(slot for name, slot in pairs if name == resource)

    async def confirm(self, resource: str, ids: Set[str]) -> None:
        """Read kubelet's checkpoint anew before an answer about doubtful ids, so that `holds` is right."""
        entries = [entry for slot in ids if (entry := self._ledger.get((resource, slot)))]
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

    def _pods_changed(self) -> None:
        self._lively_until = self._clock.monotonic() + _LIVELY_S
        self._soon.set()

    async def _tick(self) -> None:
        """Wake the question: often while an answer is awaited, else now and then."""
        asked = self._clock.monotonic()
        while True:
            await (self._clock.sleep(_QUICK_S) if self._awaited() else self._calm())
            now = self._clock.monotonic()
            if self._awaited() or now - asked >= _CALM_S:
                asked = now
                self._soon.set()

    async def _calm(self) -> None:
        """Return at the next beat, or with the next allocation."""
        self._taken.clear()
        waits = [asyncio.create_task(self._taken.wait()), asyncio.create_task(next_beat(self._clock))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _awaited(self) -> bool:
        """Whether kubelet's next answer may change what is offered."""
        if not self._evidence.final or any(entry.is_open for entry in self._ledger.values()):
            return True
        if self._kubelet.identity() != self._asked:
            return True
        told = self._pods.living() is not None and self._clock.monotonic() > self._lively_until
        return self.contested and not told

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
        return any(entry.is_open and now - entry.since < _LONGEST_HUSH_S for entry in self._ledger.values())

    async def _ask(self, *, listing: bool = True) -> None:
        async with self._asking:  # an older answer must not come after a newer one
            order, self._order = self._order, self._order + 1
            await self._take_in(await self._inquire(order, listing=listing))
        if listing and any(not entry.seen and entry.order <= order for entry in self._ledger.values()):
            self._pods.count(order)

    async def _take_in(self, evidence: Evidence | None = None) -> None:
        """Bring the ledger up to date, with what kubelet said now or last."""
        async with self._lock:
            before = self._holds
            self._evidence = evidence or self._evidence
            await self._settle()
        if self._holds is not before or (evidence and not self.known):
            self.known = True
            self._on_change()

    def _join(self) -> None:
        """Work out the holds anew."""
        holds = holds_of(self._evidence, tuple(self._ledger.values()))
        if holds != self._holds:
            self._holds = holds
            self._held = {(hold.resource, slot): hold for hold in holds for slot in hold.ids}

    async def _recount(self) -> None:
        """Follow each census: kubelet need not be asked again for it."""
        while True:
            await self._counted.wait()
            self._counted.clear()
            await self._take_in()

    async def _inquire(self, order: int, *, listing: bool) -> Evidence:
        """What kubelet's two books say, without its list unless `listing`; and which kubelet's they are."""
        self._asked = identity = self._kubelet.identity()
        shown = await self._shown() if listing else None
        settled = shown is not None and self._settled(shown, identity)
        checkpoint = await self._checkpoint()
        reserved = checkpoint and self._reserved(checkpoint, final=settled)
        listed = None if shown is None else shown.holds
        evidence = gather(self._evidence, listed, reserved, order=order, settled=settled)
        pods = frozenset[tuple[str, str]]() if shown is None else shown.pods
        return replace(evidence, kubelet=identity if identity == self._kubelet.identity() else "", pods=pods)

    def _living(self) -> Living | None:
        names = self._pods.living()
        return None if names is None else Living(names, self._pods.idle())

    async def _settle(self) -> None:
        """Bring the ledger up to date with the evidence."""
        living, census = self._living(), self._pods.census
        before = tuple(self._ledger.values())
        ledger = settle(before, self._evidence, now=self._clock.monotonic(), census=census, living=living)
        known = {slot for slot, entry in self._ledger.items() if entry.forgotten}
        self._ledger = {(entry.resource, entry.id): entry for entry in ledger}
        self._join()  # before the disk, which may be slow: what is given out meanwhile is decided by it
        if ledger == before:
            return
        fresh = [entry for slot, entry in self._ledger.items() if entry.forgotten and slot not in known]
        if fresh:
            self._tell(fresh)
        try:
            await self._save(ledger)
        except HardwareError as error:  # the older file only remembers more
            self._complain("ledger not written", str(error))

    def _tell(self, entries: Sequence[Entry]) -> None:
        """Say whose devices kubelet forgot."""
        pods = sorted({_who(entry.owner) for entry in entries})
        _LOG.warning("kubelet forgot holders: node=%s devices=%d pods=%s", self._node, len(entries), pods)
        shown = ", ".join(pods[:_MOST_PODS]) + (" and others" if len(pods) > _MOST_PODS else "")
        text = (
            f"kubelet has lost its checkpoint and which devices {shown} have; they are given to nobody else"
        )
        self._events.post("Warning", "HoldersForgotten", text)

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

    async def _save(self, entries: Iterable[Entry]) -> None:
        # Nothing in it outlives the machine's boot: neither what kubelet did not write down, nor containers.
        ledger = ledger_bytes(entries, self._boot)
        await self._performer.perform(SaveCheckpoint(CHECKPOINT, ledger, lasting=False))

    async def _restore(self) -> None:
        try:
            payload = await self._checkpoints.load(CHECKPOINT)
            if payload is not None:
                added = await self._checkpoints.load_added(CHECKPOINT)
                ledger = ledger_of(payload, self._boot, self._clock.monotonic(), added)
                self._ledger = {(entry.resource, entry.id): entry for entry in ledger}
                self._join()
        except (HardwareError, ValueError) as error:
            _LOG.warning("ledger not usable: node=%s error=%s", self._node, error)


def _who(owner: Owner) -> str:
    pod = owner.pod or owner.uid
    return f"{owner.namespace}/{pod}" if pod else "a pod that it had not named yet"
