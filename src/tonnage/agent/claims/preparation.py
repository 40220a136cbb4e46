"""Answers kubelet's questions about claims: each is noted, then has its CDI spec, then is answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tonnage.agent.board import NodeBoard
from tonnage.agent.claims.claim_specs import ClaimSpecs
from tonnage.agent.claims.devices import ClaimableDevices
from tonnage.agent.claims.partitions import ClaimPartitions
from tonnage.agent.claims.sharing import ClaimSharing
from tonnage.agent.context import AgentContext
from tonnage.agent.holds.claim_book import ClaimBook
from tonnage.agent.holds.hold_ledger import HoldLedger
from tonnage.agent.metrics.claim_counters import PREPARE, UNPREPARE, ClaimMetrics
from tonnage.decide.node.claims.claim_spec import cdi_name
from tonnage.decide.node.claims.prepare import prepare
from tonnage.decide.node.claims.sharing import ClaimGround
from tonnage.model.devices.claims import ClaimRef, PreparedClaim
from tonnage.model.errors import ApiError, Bug, ClusterError, HardwareError, Problem, TonnageError
from tonnage.model.json import JsonObject
from tonnage.model.reasons.reason import Reason
from tonnage.ports.claims import ClaimAnswer
from tonnage.wire.kinds import RESOURCE_CLAIM

_T = TypeVar("_T")
_LOG: Final = logging.getLogger(__name__)
_ANSWER_S: Final = 10.0
"""Kubelet waits 45 s for an answer, and asks again: it is to hear by then that the API server is silent."""


@dataclass(frozen=True, slots=True)
class ClaimWays:
    """What is done for a claim beside its note."""

    specs: ClaimSpecs
    sharing: ClaimSharing
    partitions: ClaimPartitions


class ClaimPreparation:
    """ClaimService. A claim that is noted already gets the same answer, whatever became of the object.

    Claims are decided one after another, and with answers of the device plugin, so that each sees what the
    one before took. Of one claim a question is answered before the next is begun: what is made for it must
    not come while the same is taken back.
    """

    def __init__(
        self,
        context: AgentContext,
        board: NodeBoard,
        ledger: HoldLedger,
        book: ClaimBook,
        devices: ClaimableDevices,
        ways: ClaimWays,
    ) -> None:
        self._node = context.node
        self._api = context.api
        self._clock = context.clock
        self._board = board
        self._ledger = ledger
        self.book = book
        self._specs = ways.specs
        self._devices = devices
        self._sharing = ways.sharing
        self._partitions = ways.partitions
        self._complaints: dict[str, str] = {}
        self._turns: dict[str, asyncio.Event] = {}
        """By uid, the end of the question about a claim that is answered now."""
        self.metrics = ClaimMetrics(context.node, context.clock, book.current_claims)

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, ClaimAnswer]:
        answers = await asyncio.gather(*map(self._answer, claims))
        return {claim.uid: answer for claim, answer in zip(claims, answers, strict=True)}

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        errors = await asyncio.gather(*map(self._unprepare, claims))
        return {claim.uid: error for claim, error in zip(claims, errors, strict=True)}

    async def _answer(self, claim: ClaimRef) -> ClaimAnswer:
        with self.metrics.request(PREPARE) as refused:
            try:
                async with self._turn(claim):
                    decided = await self._decided(claim)
            except TonnageError as error:
                refused(type(error).__name__)
                return self._refused(claim, str(error))
            if isinstance(decided, Reason):
                refused(decided.code)
                return self._refused(claim, decided.message)
        self._complaints.pop(claim.uid, None)
        names = [cdi_name(decided, device) for device in decided.devices]
        _LOG.info("claim prepared: node=%s claim=%s devices=%s", self._node, claim, ",".join(names))
        return decided, names

    @asynccontextmanager
    async def _turn(self, claim: ClaimRef) -> AsyncIterator[None]:
        """No other question about the claim is answered meanwhile."""
        while (before := self._turns.get(claim.uid)) is not None:
            await before.wait()
        over = self._turns[claim.uid] = asyncio.Event()
        try:
            yield
        finally:
            del self._turns[claim.uid]
            over.set()

    def _refused(self, claim: ClaimRef, why: str) -> str:
        """The refusal, which is logged once: kubelet asks again and again."""
        if self._complaints.get(claim.uid) != why:
            self._complaints[claim.uid] = why
            _LOG.warning("claim refused: node=%s claim=%s why=%s", self._node, claim, why)
        return why

    async def _decided(self, claim: ClaimRef) -> PreparedClaim | Reason:
        """Raises HardwareError, ClusterError."""
        if self.book.unreadable:
            raise HardwareError(Problem(self.book.unreadable))
        if not await self._devices.settled():
            why = "it does not know yet which devices containers have"
            raise HardwareError(Problem("the agent has not started yet", self._node, why))
        noted = self.book.current(claim.uid)
        new = noted is None
        if noted is None:
            standing = await self.standing(claim)
            async with self._ledger.answering:
                decided = prepare(claim, *standing, self._ground(claim))
                if isinstance(decided, Reason):
                    return decided
                noted = decided
                await self.book.note(noted)
        # Not within: instances and daemons take their time, and others want answers.
        whole = await self._partitions.begin(noted)
        await self._sharing.begin(whole)
        async with self._ledger.answering:
            if whole != noted:
                await self.book.note(whole)
            await self._specs.write(whole, new=new)
        return whole

    async def standing(self, claim: ClaimRef) -> tuple[str, JsonObject]:
        """(uid, status) of the claim that has the name now, empty if none has. Raises ClusterError."""
        if self._api is None:
            raise Bug(Problem("claims are prepared without a cluster"))
        try:
            claimed = await self._in_time(self._api.get(RESOURCE_CLAIM, claim.name, claim.namespace), claim)
        except ApiError as error:
            if error.code == 404:
                return "", {}
            raise
        return claimed.metadata.uid, claimed.status

    async def _in_time(self, answer: Coroutine[Any, Any, _T], claim: ClaimRef) -> _T:
        """What the API server answers. Raises ClusterError: it is silent."""
        reading = asyncio.ensure_future(answer)
        alarm = asyncio.ensure_future(self._clock.sleep(_ANSWER_S))
        try:
            await asyncio.wait((reading, alarm), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
        finally:
            reading.cancel()
            alarm.cancel()
        why = f"the API server has not answered for {_ANSWER_S:.0f} s"
        raise ClusterError(Problem("the claim cannot be read", str(claim), why))

    def _ground(self, claim: ClaimRef) -> ClaimGround:
        devices = {device.name: device for device in self._devices.current() or ()}
        current = self._board.configuration.value
        root = "" if current is None else current.config.mps_root
        held, book = self._board.holds.value, self.book
        parts = self._partitions.of_others(claim.uid)
        return ClaimGround(self._node, devices, held, book.boot, book.uids(), root, parts, book.shared())

    async def _unprepare(self, claim: ClaimRef) -> str:
        """Why it is not given back; empty: it is."""
        with self.metrics.request(UNPREPARE) as refused:
            try:
                async with self._turn(claim):
                    await self._give_back(claim)
            except HardwareError as error:
                refused(type(error).__name__)
                return self._refused(claim, str(error))
        return ""

    async def _give_back(self, claim: ClaimRef) -> None:
        """The note goes last: killed before, kubelet asks again. Raises HardwareError.

        Of one that is not noted something may be left all the same: the file of claims was lost.
        """
        if self.book.unreadable:
            raise HardwareError(Problem(self.book.unreadable))
        noted = self.book.claims.get(claim.uid)
        async with self._ledger.answering:
            # Of one that is noted nothing but a time slice depends on it, and reading costs time.
            present = (noted is None or bool(noted.slices)) and await self._specs.present(claim.uid)
            if present or noted is not None:
                await self._specs.remove(claim.uid)
        if noted is not None and noted.boot == self.book.boot:
            await self._sharing.end(noted, answered=present)
            await self._partitions.end(noted)
        async with self._ledger.answering:
            await self.book.forget(claim)
        self._sharing.over(claim.uid)
        self._complaints.pop(claim.uid, None)
        if present or noted is not None:
            _LOG.info("claim unprepared: node=%s claim=%s", self._node, claim)
