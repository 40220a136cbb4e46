"""MIG-4: agents that are killed (SIGKILL) at many moments of MIG changes of every kind: none wedges a node.

It needs no node, only minutes, and root for changes that run programs of the host.
`python -m benchmarks migcrash` makes more changes at more moments.
"""

from __future__ import annotations

import os
from fractions import Fraction

import pytest

from support.crash.campaign import kills_of, run_campaign
from support.crash.transitions import HOST_KINDS, KINDS
from support.sampling import Sampler

pytestmark = pytest.mark.kubernetes

SEED = 7
KINDS_HERE = len(KINDS) + (len(HOST_KINDS) if os.geteuid() == 0 else 0)
ROUNDS = 2
"""Of changes of every kind."""
MOMENTS = 3


async def test_mig_4_killed_around_calls_files_and_api_writes_it_ends_well(
    sample: Sampler,
) -> None:
    rounds = sample.items("rounds of MIG changes of every kind", range(ROUNDS), share=Fraction(1, 2))
    changes = [number * KINDS_HERE + kind for number in rounds for kind in range(KINDS_HERE)]
    lanes = max(2, os.cpu_count() or 1)
    rows = [row async for row in run_campaign(SEED, changes, MOMENTS, lanes)]
    assert not [what for row in rows for what in row.wedged]
    assert not [what for row in rows for what in row.lost]
    assert len({row.kind for row in rows}) == KINDS_HERE
    kills = kills_of(rows)
    sorts = {f"{sort}, {side}" for sort in ("hardware", "question", "journal", "file", "API", "program")
             for side in ("before", "after")}  # fmt: skip
    assert kills.keys() == sorts
    assert kills.total() > len(changes) * MOMENTS * 0.8
