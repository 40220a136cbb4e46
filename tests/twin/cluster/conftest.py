"""A whole twin with its real agents, started for one test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.fleet import SCENARIO, Fleet, running_fleet
from tonnage.wire.kinds import NODE


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    async with running_fleet(SCENARIO) as fleet:
        await fleet.until(lambda: _advertises(fleet))
        yield fleet


async def _advertises(fleet: Fleet) -> bool:
    nodes = (await fleet.api.list(NODE)).items
    return len(nodes) == 2 and await fleet.allocatable() == 2
