"""The agent as a process of its own, killed with SIGKILL amid prepare, unprepare and publish."""

from __future__ import annotations

import pytest

from support.claim_campaign import killed_claims

FEW, MANY, SEED = 6, 100, 1


@pytest.mark.parametrize("trials", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
async def test_agents_that_are_killed_leave_nothing_double_lost_stuck_or_half_made(trials: int) -> None:
    async with killed_claims(SEED if trials == FEW else SEED + 1) as node:
        for _ in range(trials):
            await node.trial()
        await node.end()
        assert node.tally.answered
        assert node.tally.cut_off
