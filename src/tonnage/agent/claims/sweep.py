"""Gives claims back that kubelet never will: it forgot them, and their objects are gone."""

from __future__ import annotations

import logging
from typing import Final

from tonnage.agent.claims.claim_specs import ClaimSpecs
from tonnage.agent.claims.preparation import ClaimPreparation
from tonnage.agent.context import AgentWorld
from tonnage.agent.holds.claim_book import ClaimBook
from tonnage.model.devices.claims import PreparedClaim
from tonnage.model.errors import ClusterError

_LOG: Final = logging.getLogger(__name__)
EVERY_S: Final = 600.0


class ClaimSweep:
    """Looks at noted claims now and then.

    A claim that was answered in this boot is kubelet's to give back, whatever became of its object: a pod
    whose claim was deleted by force may still run. One that never was answered, or is of an earlier boot,
    has no container; it is given back once its object is gone or another has its name.
    """

    def __init__(
        self, world: AgentWorld, book: ClaimBook, specs: ClaimSpecs, preparation: ClaimPreparation
    ) -> None:
        self._node = world.node
        self._clock = world.clock
        self._book = book
        self._specs = specs
        self._preparation = preparation

    async def run(self) -> None:
        """Sweep until cancelled. The first look is late, so that kubelet may ask again after a crash."""
        while True:
            await self._clock.sleep(EVERY_S)
            for noted in tuple(self._book.claims.values()):
                if await self._stale(noted):
                    _LOG.warning("stale claim given back: node=%s claim=%s", self._node, noted.claim)
                    await self._preparation.unprepare([noted.claim])

    async def _stale(self, noted: PreparedClaim) -> bool:
        if noted.boot == self._book.boot and await self._specs.present(noted.claim.uid):
            return False
        try:
            uid, _ = await self._preparation.standing(noted.claim)
        except ClusterError:  # nobody can say; the next look may
            return False
        return uid != noted.claim.uid
