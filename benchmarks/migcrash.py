"""Agents that are killed (SIGKILL) in the middle of MIG changes: how many, and what never became right.

`TONNAGE_MIGCRASH=NUMBER/MOMENTS/SEED` makes so many changes, each at so many moments (0: at all, which takes
hours) beside once without a kill. What went wrong is told in full on standard error.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Final

from support.crash.campaign import Row, kills_of, run_campaign

_USUAL: Final = "200/4/1"


def measure(_rounds: int) -> dict[str, list[float]]:
    """Counts, and the wall time in seconds."""
    number, moments, seed = map(int, os.environ.get("TONNAGE_MIGCRASH", _USUAL).split("/"))
    start = time.monotonic()
    rows = asyncio.run(_rows(seed, number, moments))
    took = time.monotonic() - start
    kills = kills_of(rows)
    wedged, lost = (sum(map(len, found)) for found in ([r.wedged for r in rows], [r.lost for r in rows]))
    return {
        "MIG changes": [len(rows)],
        "  kinds of them": [len({row.kind for row in rows})],
        "agents killed in them": [kills.total()],
        **{f"  {sort}": [count] for sort, count in sorted(kills.items())},
        "nodes wedged (wanted: 0)": [wedged],
        "bystanders that lost an instance (wanted: 0)": [lost],
        "wall time, s": [took],
    }


async def _rows(seed: int, number: int, moments: int) -> list[Row]:
    rows: list[Row] = []
    async for row in run_campaign(seed, number, moments, max(2, os.cpu_count() or 1)):
        rows.append(row)
        for what in (*row.wedged, *row.lost):
            print(what, file=sys.stderr, flush=True)
    return rows
