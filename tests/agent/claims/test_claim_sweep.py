"""Which noted claims are given back without kubelet."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.agent_context import world_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.claims.sweep import EVERY_S, ClaimSweep
from tonnage.model.devices.claims import ClaimRef, PreparedClaim
from tonnage.model.errors import ClusterError, Problem
from tonnage.twin.clock import VirtualClock

CLAIM = ClaimRef("ml", "train", "u-1")


class Preparation:
    """Knows which object has the claim's name now; None: nobody can say."""

    def __init__(self, uid: str | None) -> None:
        self._uid = uid
        self.given_back: list[ClaimRef] = []

    async def standing(self, _claim: ClaimRef) -> tuple[str, Any]:
        if self._uid is None:
            raise ClusterError(Problem("the API server is away"))
        return self._uid, {}

    async def unprepare(self, claims: list[ClaimRef]) -> dict[str, str]:
        self.given_back += claims
        return {}


@pytest.mark.parametrize(
    ("boot", "answered", "uid", "given_back"),
    [
        pytest.param("now", False, "", True, id="never-answered-and-its-object-is-gone"),
        pytest.param("now", False, "u-2", True, id="never-answered-and-another-has-its-name"),
        pytest.param("now", False, "u-1", False, id="never-answered-and-still-there"),
        pytest.param("now", False, None, False, id="nobody-can-say"),
        pytest.param("now", True, "", False, id="answered-and-deleted-by-force-its-pod-may-run"),
        pytest.param("before", True, "", True, id="of-an-earlier-boot-and-its-object-is-gone"),
        pytest.param("before", True, "u-1", False, id="of-an-earlier-boot-and-kubelet-asks-again"),
    ],
)
async def test_a_claim_without_containers_is_given_back_once_its_object_is_gone(
    tmp_path: Path, boot: str, answered: bool, uid: str | None, given_back: bool
) -> None:
    clock = VirtualClock()

    async def present(_uid: str) -> bool:
        return answered

    book: Any = SimpleNamespace(claims={CLAIM.uid: PreparedClaim(CLAIM, boot=boot)}, boot="now")
    specs: Any = SimpleNamespace(present=present)
    preparation: Any = Preparation(uid)
    world = world_of("n", None, clock, FolderCheckpoints(tmp_path))
    running = asyncio.ensure_future(ClaimSweep(world, book, specs, preparation).run())
    try:
        await clock.advance(EVERY_S - 1)
        assert not preparation.given_back
        await clock.advance(2)
        assert preparation.given_back == ([CLAIM] if given_back else [])
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
