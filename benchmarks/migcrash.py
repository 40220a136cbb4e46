"""Agents that are killed (SIGKILL) in the middle of MIG changes: how many, and what never became right.

`TONNAGE_MIGCRASH=NUMBER/MOMENTS/SEED` makes so many changes, each once without a kill and at so many
moments; 0: at all that do not leave the same as another (support.crash.trial.different), which takes hours,
and at a few of the others. `…/LANES` has so many nodes at once, `…/LANES/KIND;KIND` takes only some kinds.
Every change is told on standard error when it is through, and in full what went wrong.
`TONNAGE_MIGCRASH_ROWS=FILE` keeps what came of each: what is in that file is not made again, so a run that
was stopped can be taken up.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from support.crash.campaign import Row, kills_of, run_campaign
from support.crash.transitions import transitions

_USUAL: Final = "200/2/1"


def measure(_rounds: int) -> dict[str, list[float]]:
    """Counts, and the wall time in seconds."""
    words = os.environ.get("TONNAGE_MIGCRASH", _USUAL).split("/", 4)
    number, points, seed, *lanes = map(int, words[:4])
    kinds = words[4].split(";") if len(words) > 4 else []
    changes = transitions(seed, number, root=os.geteuid() == 0)
    places = [place for place, change in enumerate(changes) if not kinds or change.kind in kinds]
    start = time.monotonic()
    file = Path(os.environ.get("TONNAGE_MIGCRASH_ROWS", os.devnull))
    rows = _kept(file, places)
    left = [place for place in places if place not in {row.place for row in rows}]
    with file.open("ab") as keep:
        asyncio.run(_add(rows, run_campaign(seed, left, points, lanes[0] if lanes else _usual_lanes()), keep))
    took = time.monotonic() - start
    kills = kills_of(rows)
    wedged, lost = (sum(map(len, found)) for found in ([r.wedged for r in rows], [r.lost for r in rows]))
    return {
        "MIG changes": [len(rows)],
        "  kinds of them": [len({row.kind for row in rows})],
        "moments before and after their deeds": [sum(row.moments for row in rows)],
        "  that do not leave the same": [sum(row.different for row in rows)],
        "times that they were made": [sum(row.trials for row in rows)],
        "  without the moment that was wanted": [sum(row.missed for row in rows)],
        "  in which going back was refused as well": [sum(row.both_ways for row in rows)],
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


def _kept(file: Path, places: list[int]) -> list[Row]:
    lines = file.read_bytes().splitlines() if file.exists() else []
    return [row for line in lines if (row := msgspec.json.decode(line, type=Row)).place in places]


async def _add(rows: list[Row], more: AsyncIterator[Row], keep: BinaryIO) -> None:
    async for row in more:
        rows.append(row)
        keep.write(msgspec.json.encode(row) + b"\n")
        keep.flush()
        told = f"{row.kind}: made {row.trials} times, {sum(row.kills.values())} agents killed"
        print(f"{len(rows)}: {told}", *row.wedged, *row.lost, sep="\n", file=sys.stderr, flush=True)
