"""Which noted claims are given back without kubelet."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.agent_context import context_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.claims.sweep import EVERY_S, ClaimSweep
from tonnage.agent.node_pods import NodePods
from tonnage.model.devices.claims import ClaimRef, PreparedClaim
from tonnage.model.errors import ClusterError, HardwareError, Problem
from tonnage.model.node.telemetry import PodIdentity
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import POD

CLAIM = ClaimRef("ml", "train", "u-1")
MINE = {"ml/a": PodIdentity("p-1", claims=("train",))}
OTHERS = {"ml/a": PodIdentity("p-1", claims=("serve",)), "other/b": PodIdentity("p-2", claims=("train",))}


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
    ("boot", "answered", "uid", "pods", "given_back"),
    [
        pytest.param("now", False, "", MINE, True, id="never-answered-and-its-object-is-gone"),
        pytest.param("now", False, "u-2", MINE, True, id="never-answered-and-another-has-its-name"),
        pytest.param("now", False, "u-1", MINE, False, id="never-answered-and-still-there"),
        pytest.param("now", False, None, MINE, False, id="nobody-can-say"),
        pytest.param("now", None, "", MINE, False, id="its-spec-cannot-be-read"),
        pytest.param("now", True, "", MINE, False, id="answered-and-deleted-by-force-its-pod-may-run"),
        pytest.param("now", True, "", {}, False, id="answered-and-no-pods-are-known-yet"),
        pytest.param("now", True, "", OTHERS, True, id="answered-and-kubelet-has-forgotten-it"),
        pytest.param("now", True, "u-1", OTHERS, False, id="answered-and-the-next-pod-may-ask"),
        pytest.param("before", True, "", MINE, True, id="of-an-earlier-boot-and-its-object-is-gone"),
        pytest.param("before", True, "u-1", MINE, False, id="of-an-earlier-boot-and-kubelet-asks-again"),
    ],
)
async def test_a_claim_without_containers_is_given_back_once_its_object_is_gone(
    tmp_path: Path,
    boot: str,
    answered: bool | None,
    uid: str | None,
    pods: dict[str, PodIdentity],
    given_back: bool,
) -> None:
    clock = VirtualClock()

    async def present(_uid: str) -> bool:
        if answered is None:
            raise HardwareError(Problem("cannot be read"))
        return answered

    book: Any = SimpleNamespace(claims={CLAIM.uid: PreparedClaim(CLAIM, boot=boot)}, boot="now")
    specs: Any = SimpleNamespace(present=present)
    preparation: Any = Preparation(uid)
    context = context_of("n", None, clock, FolderCheckpoints(tmp_path))
    board = NodeBoard.blank(clock)
    board.pods.publish(pods)
    running = asyncio.ensure_future(ClaimSweep(context, board, book, specs, preparation).run())
    try:
        await clock.advance(2 * EVERY_S - 1)
        assert not preparation.given_back
        await clock.advance(2)
        assert preparation.given_back == ([CLAIM] if given_back else [])
        assert not running.done(), "it looks again"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_pod_names_its_claims_also_the_one_that_the_scheduler_made_for_its_extended_resources(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    context = context_of("n", cluster, clock, FolderCheckpoints(tmp_path))
    context.started.set()
    spec = {"nodeName": "n", "resourceClaims": [{"name": "a", "resourceClaimName": "own"}, {"name": "b"}]}
    status = {
        "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-x1"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "p-extended-resources-x2"},
    }
    cluster.put(POD, "p", "ml", metadata={"uid": "u"}, spec=spec, status=status)
    seen = asyncio.Event()
    pods = NodePods(context, on_change=seen.set, on_census=lambda: None)
    running = asyncio.ensure_future(pods.run())
    try:
        async with asyncio.timeout(30):
            while not pods.identities():
                seen.clear()
                await seen.wait()
        assert pods.identities()["ml/p"].claims == ("own", "p-b-x1", "p-extended-resources-x2")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
