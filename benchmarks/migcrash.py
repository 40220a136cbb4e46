"""Agents that are killed (SIGKILL) in the middle of MIG changes: how many, and what never became right.

`TONNAGE_MIGCRASH=NUMBER/MOMENTS/SEED` makes so many changes, each at so many moments (0: at all, which takes
hours) beside once without a kill. `…/LANES` has so many nodes at once, `…/LANES/KIND;KIND` takes only some
kinds. Every change is told on standard error when it is through, and in full what went wrong.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Final

from support.crash.campaign import Row, kills_of, run_campaign

_USUAL: Final = "200/2/1"


def measure(_rounds: int) -> dict[str, list[float]]:
    """Counts, and the wall time in seconds."""
    words = os.environ.get("TONNAGE_MIGCRASH", _USUAL).split("/", 4)
    number, moments, seed, *lanes = map(int, words[:4])
    kinds = words[4].split(";") if len(words) > 4 else []
    start = time.monotonic()
    rows = asyncio.run(_rows(seed, number, moments, lanes[0] if lanes else _usual_lanes(), kinds))
    took = time.monotonic() - start
    kills = kills_of(rows)
    wedged, lost = (sum(map(len, found)) for found in ([r.wedged for r in rows], [r.lost for r in rows]))
    return {
        "MIG changes": [len(rows)],
        "  kinds of them": [len({row.kind for row in rows})],
        "times that they were made": [sum(row.trials for row in rows)],
        "agents killed in them": [kills.total()],
        **{f"  {sort}": [count] for sort, count in sorted(kills.items())},
        "  fewest sorts of moments of a kind": [min(_sorts(rows).values(), default=0)],
        "nodes wedged (wanted: 0)": [wedged],
        "bystanders that lost an instance (wanted: 0)": [lost],
        "wall time, s": [took],
    }


def _sorts(rows: list[Row]) -> dict[str, int]:
    """At how many sorts of moments agents were killed, by kind of change."""
    return {kind: len(kills_of(row for row in rows if row.kind == kind)) for kind in {r.kind for r in rows}}


def _usual_lanes() -> int:
    """Agents wait more than they work."""
    return 3 * (os.cpu_count() or 1)


async def _rows(seed: int, number: int, moments: int, lanes: int, kinds: list[str]) -> list[Row]:
    rows: list[Row] = []
    async for row in run_campaign(seed, number, moments, lanes, kinds):
        rows.append(row)
        told = f"{row.kind}: made {row.trials} times, {sum(row.kills.values())} agents killed"
        print(f"{len(rows)}: {told}", *row.wedged, *row.lost, sep="\n", file=sys.stderr, flush=True)
    return rows
