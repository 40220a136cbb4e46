"""MIG-4: agents that are killed (SIGKILL) at many moments of MIG changes of every kind: none wedges a node.

It needs no node, only minutes, and root for changes that run programs of the host.
`python -m benchmarks migcrash` makes more changes at more moments.
"""

from __future__ import annotations

import os

import pytest

from support.crash.campaign import kills_of, run_campaign
from support.crash.transitions import HOST_KINDS, KINDS

pytestmark = pytest.mark.kubernetes

SEED = 7
KINDS_HERE = len(KINDS) + (len(HOST_KINDS) if os.geteuid() == 0 else 0)
CHANGES = 2 * KINDS_HERE
MOMENTS = 3


async def test_mig_4_killed_around_calls_files_and_api_writes_it_ends_well() -> None:
    lanes = max(2, os.cpu_count() or 1)
    rows = [row async for row in run_campaign(SEED, range(CHANGES), MOMENTS, lanes)]
    assert not [what for row in rows for what in row.wedged]
    assert not [what for row in rows for what in row.lost]
    assert len({row.kind for row in rows}) == KINDS_HERE
    kills = kills_of(rows)
    sorts = {f"{sort}, {side}" for sort in ("hardware", "question", "journal", "file", "API", "program")
             for side in ("before", "after")}  # fmt: skip
    assert kills.keys() == sorts
    assert kills.total() > CHANGES * MOMENTS * 0.8
