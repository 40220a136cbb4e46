"""Has a claim's devices shared as its configurations say, before it is answered, and no longer than it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.holds.claim_book import ClaimBook
from tonnage.decide.node.claims.sharing import daemons_of_claims
from tonnage.model.actions.devices import SetComputeMode, SetTimeSlice
from tonnage.model.actions.mps import StopDaemon
from tonnage.model.devices.claims import PreparedClaim, SlicedDevice
from tonnage.model.devices.inventory import ComputeMode, TimeSlice
from tonnage.model.devices.mps import MpsDaemon
from tonnage.model.errors import HardwareError, Problem

_LOG: Final = logging.getLogger(__name__)
_PATIENCE_S: Final = 20.0
"""For a daemon to serve or to end. kubelet's patience is 45 seconds, and then it asks again."""
_LOOK_S: Final = 0.05


class ClaimSharing:
    """Sets time slices, and has `NodeMps` run the control daemons that claims need.

    What a claim needs is in the book first, so that whoever comes after a crash ends it with the claim.
    """

    def __init__(self, context: AgentContext, board: NodeBoard, book: ClaimBook) -> None:
        self._node = context.node
        self._clock = context.clock
        self._events = context.events
        self._performer = context.performer
        self._board = board
        self._book = book
        self._ending: set[str] = set()
        """Claims, by uid, that are being given back."""
        self._slicing = asyncio.Lock()
        """So that the time slice of a claim that begins is not reset for one that ends."""

    def restore(self) -> None:
        """Have the daemons run again that an earlier agent's claims need: they ended with it."""
        self._publish()

    async def begin(self, prepared: PreparedClaim) -> None:
        """Have it so. Raises HardwareError: why it is not."""
        self._ending.discard(prepared.claim.uid)
        async with self._slicing:
            for sliced in prepared.slices:
                await self._performer.perform(SetComputeMode(sliced.uuid, ComputeMode.DEFAULT))
                await self._performer.perform(SetTimeSlice(sliced.uuid, sliced.interval))
        if prepared.daemons:
            self._publish()
            await self._until(prepared.daemons, lambda daemon: not self._why_not(daemon))
            for daemon in prepared.daemons:
                if why := self._why_not(daemon):
                    raise HardwareError(Problem("the claim's MPS control daemon does not serve", why=why))

    async def end(self, prepared: PreparedClaim, *, answered: bool) -> None:
        """Have it as before. Raises HardwareError: it is not so yet.

        A time slice that the driver does not take back is reported and left, unless the claim was `answered`:
        maybe it was never set, and no pod may stay for ever because of it.
        """
        self._ending.add(prepared.claim.uid)
        async with self._slicing:
            for sliced in prepared.slices:
                if self._exists(sliced.uuid) and not self._needed(sliced, prepared):
                    await self._reset(sliced, prepared, insists=answered)
        if prepared.daemons:
            self._publish()
            await self._until(prepared.daemons, lambda daemon: daemon.resource not in self._board.mps.value)
            for daemon in prepared.daemons:
                if daemon.resource in self._board.mps.value:
                    raise HardwareError(Problem("the claim's MPS control daemon has not ended yet"))
                await self._performer.perform(StopDaemon(daemon, over=True))

    async def _reset(self, sliced: SlicedDevice, prepared: PreparedClaim, *, insists: bool) -> None:
        """Raises HardwareError: it cannot be done, and somebody `insists`."""
        try:
            await self._performer.perform(SetTimeSlice(sliced.uuid, TimeSlice.DEFAULT))
        except HardwareError as error:
            if insists:
                raise
            _LOG.warning("time slice left: node=%s claim=%s error=%s", self._node, prepared.claim, error)
            self._events.post(
                "Warning", "TimeSliceLeft", f"claim {prepared.claim} is given back all the same: {error}"
            )

    def _needed(self, sliced: SlicedDevice, prepared: PreparedClaim) -> bool:
        """Whether another claim has a time slice of the GPU, and is not being given back, too."""
        over = {prepared.claim.uid, *self._ending}
        return any(
            sliced.uuid == its.uuid
            for other in self._book.current_claims()
            if other.claim.uid not in over
            for its in other.slices
        )

    def over(self, uid: str) -> None:
        """The claim is no longer in the book."""
        self._ending.discard(uid)

    def _publish(self) -> None:
        self._board.claim_daemons.publish(
            daemons_of_claims(
                prepared.daemons
                for prepared in self._book.current_claims()
                if prepared.claim.uid not in self._ending
            )
        )

    def _why_not(self, daemon: MpsDaemon) -> str:
        state = self._board.mps.value.get(daemon.resource)
        if state is None or not state.daemon.like(daemon):
            return "it has not started yet"
        return state.why

    def _exists(self, uuid: str) -> bool:
        inventory = self._board.inventory.value
        return inventory is not None and any(device.uuid == uuid for device in inventory.devices)

    async def _until(self, daemons: tuple[MpsDaemon, ...], is_so: Callable[[MpsDaemon], bool]) -> None:
        """Wait until it is so of every daemon, as long as there is patience."""
        patience = self._clock.monotonic() + _PATIENCE_S
        while not all(map(is_so, daemons)) and self._clock.monotonic() < patience:
            await self._clock.sleep(_LOOK_S)
