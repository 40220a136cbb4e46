"""Gives claims back that kubelet never will: it forgot them, and their objects are gone."""

from __future__ import annotations

import logging
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.claims.claim_specs import ClaimSpecs
from tonnage.agent.claims.preparation import ClaimPreparation
from tonnage.agent.context import AgentContext
from tonnage.agent.holds.claim_book import ClaimBook
from tonnage.model.devices.claims import ClaimRef, PreparedClaim
from tonnage.model.errors import ClusterError, HardwareError

_LOG: Final = logging.getLogger(__name__)
EVERY_S: Final = 60.0


class ClaimSweep:
    """Looks at noted claims now and then.

    A claim whose object is gone, or another has its name, is given back once two looks in a row have found
    that it has no pod. One that never was answered, or is of an earlier boot, has no container. One that was
    answered is kubelet's to give back as long as a pod of it is there: its object may be deleted by force.
    A kubelet that has lost `dra_manager_state` gives back nothing of before; seen with kubelet 1.35.
    """

    def __init__(
        self,
        context: AgentContext,
        board: NodeBoard,
        book: ClaimBook,
        specs: ClaimSpecs,
        preparation: ClaimPreparation,
    ) -> None:
        self._node = context.node
        self._clock = context.clock
        self._board = board
        self._book = book
        self._specs = specs
        self._preparation = preparation

    async def run(self) -> None:
        """Sweep until cancelled. Two looks, so that containers may end, and kubelet may ask after a crash."""
        stale = set[str]()
        while True:
            await self._clock.sleep(EVERY_S)
            before, stale = stale, set()
            for noted in tuple(self._book.claims.values()):
                if not await self._is_stale(noted):
                    continue
                if noted.claim.uid not in before:
                    stale.add(noted.claim.uid)
                    continue
                _LOG.warning("stale claim given back: node=%s claim=%s", self._node, noted.claim)
                await self._preparation.unprepare([noted.claim])

    async def _is_stale(self, noted: PreparedClaim) -> bool:
        """Whether its name is another claim's now, or nobody's. Nobody asks of one that has a pod."""
        try:
            answered = noted.boot == self._book.boot and await self._specs.present(noted.claim.uid)
            if answered and self._has_pod(noted.claim):
                return False
            uid, _ = await self._preparation.standing(noted.claim)
        except (ClusterError, HardwareError):  # nobody can say; the next look may
            return False
        return uid != noted.claim.uid

    def _has_pod(self, claim: ClaimRef) -> bool:
        """Whether a pod of this node that is not over names the claim; so it may while no pods are known."""
        pods = self._board.pods.value
        named = (
            claim.name in pod.claims for key, pod in pods.items() if key.startswith(f"{claim.namespace}/")
        )
        return not pods or any(named)
