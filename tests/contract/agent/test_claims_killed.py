"""The agent as a process of its own, killed with SIGKILL amid prepare, unprepare and publish."""

from __future__ import annotations

import pytest

from support.claim_campaign import killed_claims

FEW, MANY = 6, 20
"""Kills of one node; more of them would take longer than a test may on a busy machine."""
SEEDS = range(1, 7)


@pytest.mark.long
@pytest.mark.sampled("campaigns of killed agents with claims", share="1/3")
@pytest.mark.parametrize("seed", SEEDS)
async def test_agents_that_are_killed_leave_nothing_double_lost_stuck_or_half_made(seed: int) -> None:
    """Every other node has two agents, of which one waits for the other's end."""
    async with killed_claims(seed, in_pairs=seed % 2 == 0) as node:
        for _ in range(FEW if seed == SEEDS[0] else MANY):
            await node.trial()
        await node.end()
        assert node.tally.answered
        assert node.tally.cut_off
