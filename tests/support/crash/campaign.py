"""Many changes of layouts, each made again and again with an agent that is killed at another moment of it.

`python -m support.crash.campaign SEED NUMBER POINTS LANE LANES [KIND …]` makes a lane's share of that many
changes, each at so many moments (0: all), and prints a `Row` a line. With kinds it takes only those.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from support.crash.node import CrashNode, crash_node
from support.crash.nursery import TESTS
from support.crash.transitions import Transition, transitions
from support.crash.trial import Trial, attempt, chosen, fuses, sort_of


@dataclass(slots=True)
class Row:
    """What came of a change: agents that were killed, by what they were about to do or had done."""

    kind: str
    kills: dict[str, int] = field(default_factory=dict)
    trials: int = 0
    wedged: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def count(self, trial: Trial) -> None:
        self.trials += 1
        for fuse in trial.killed:
            sort = f"{sort_of(fuse.deed)}, {'after' if fuse.after else 'before'}"
            self.kills[sort] = self.kills.get(sort, 0) + 1
        if trial.wrong:
            self.wedged.append(str(trial))
        if trial.lost:
            self.lost.append(str(trial))


async def try_out(
    node: CrashNode, change: Transition, points: int, chance: random.Random, *, first: int = 0
) -> Row:
    """The change without a kill, then with one at each of so many; in some the next agent dies, too."""
    row = Row(change.kind)
    whole = await attempt(node, change)
    row.count(whole)
    moments = fuses(whole.trace)
    for place, fuse in enumerate(chosen(moments, points, chance, first=first)):
        again = [replace(chance.choice(moments), number=1)] if (first + place) % 3 == 2 else []
        row.count(await attempt(node, change, fuse, *again))
    return row


async def run_campaign(
    seed: int, number: int, points: int, lanes: int, kinds: Sequence[str] = ()
) -> AsyncIterator[Row]:
    """The rows of that many changes, as they come, from processes of their own."""
    rows: asyncio.Queue[Row | None] = asyncio.Queue()

    async def lane(place: int) -> None:
        words = map(str, (seed, number, points, place, lanes, *kinds))
        path = os.pathsep.join([TESTS, *filter(None, [os.environ.get("PYTHONPATH")])])
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "support.crash.campaign", *words),
            env=os.environ | {"PYTHONPATH": path},
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 24,
        )
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                rows.put_nowait(msgspec.json.decode(line, type=Row))
            if await process.wait():
                raise RuntimeError(f"a lane has ended with status {process.returncode}")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            rows.put_nowait(None)

    async with asyncio.TaskGroup() as group:
        for place in range(lanes):
            group.create_task(lane(place))
        for _ in range(lanes):
            while (row := await rows.get()) is not None:
                yield row


def kills_of(rows: Iterable[Row]) -> Counter[str]:
    """How many agents were killed, by sort of moment."""
    return sum((Counter(row.kills) for row in rows), Counter[str]())


async def _lane(words: Sequence[str]) -> None:
    seed, number, points, place, lanes = map(int, words[:5])
    kinds = words[5:]
    changes = transitions(seed, number, root=os.geteuid() == 0)
    different = len({change.kind for change in changes})
    async with crash_node() as node:
        for at, change in enumerate(changes):
            if at % lanes == place and (not kinds or change.kind in kinds):
                first = at + points * (at // different)
                row = await try_out(node, change, points, random.Random(f"{seed}/{at}"), first=first)
                sys.stdout.buffer.write(msgspec.json.encode(row) + b"\n")
                sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_lane(sys.argv[1:]))
