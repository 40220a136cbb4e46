"""Many changes of layouts, each made again and again with an agent that is killed at another moment of it.

`python -m support.crash.campaign SEED POINTS` reads the number of a change a line, makes it at so many
moments (0: all that leave something else), and prints its `Row` on a line.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from support.crash.forked_agents import TESTS
from support.crash.node import CrashNode, crash_node
from support.crash.transitions import KINDS, Transition, transitions
from support.crash.trial import Trial, attempt, chosen, different, fuses, moments, sort_of

_CONTROLS: Final = 4
"""Moments of which it is tried that they leave what the one before leaves."""


@dataclass(slots=True)
class Row:
    """What came of a change: agents that were killed, by what they were about to do or had done."""

    place: int
    kind: str
    moments: int = 0
    """Before and after all that it does."""
    different: int = 0
    """Of these, what does not leave the same as the one before."""
    kills: dict[str, int] = field(default_factory=dict)
    trials: int = 0
    missed: int = 0
    """Lives that had no such moment."""
    both_ways: int = 0
    """Trials in which the driver refused the way back as well, though it should not."""
    wedged: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def count(self, trial: Trial) -> None:
        self.trials += 1
        self.missed += bool(trial.fuses and not trial.killed)
        self.both_ways += trial.both_ways
        for fuse in trial.killed:
            sort = f"{sort_of(fuse.deed)}, {'after' if fuse.after else 'before'}"
            self.kills[sort] = self.kills.get(sort, 0) + 1
        if trial.wrong:
            self.wedged.append(str(trial))
        if trial.lost:
            self.lost.append(str(trial))


async def try_out(node: CrashNode, row: Row, change: Transition, points: int, chance: random.Random) -> None:
    """The change without a kill, then with one at each of so many; in some the next agent dies, too.

    With all that leave something else, a few of the others are tried as well.
    """
    whole = await attempt(node, change)
    row.count(whole)
    around, own = fuses(whole.trace), different(fuses(whole.trace))
    row.moments, row.different = moments(whole.trace), len(own)
    first = points * (row.place // len(KINDS)) + row.place
    if points:
        picked = chosen(around, points, chance, first=first)
    else:
        others = [fuse for fuse in around if fuse not in own]
        picked = [*own, *chance.sample(others, min(len(others), _CONTROLS))]
    for place, fuse in enumerate(picked):
        again = [replace(chance.choice(around), number=1)] if (first + place) % 3 == 2 else []
        row.count(await attempt(node, change, fuse, *again))


async def run_campaign(seed: int, places: Sequence[int], points: int, lanes: int) -> AsyncIterator[Row]:
    """The rows of these changes, as they come, from processes of their own."""
    rows: asyncio.Queue[Row | None] = asyncio.Queue()
    waiting = deque(places)

    async def lane() -> None:
        path = os.pathsep.join([TESTS, *filter(None, [os.environ.get("PYTHONPATH")])])
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "support.crash.campaign", str(seed), str(points)),
            env=os.environ | {"PYTHONPATH": path},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 24,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            while waiting:
                process.stdin.write(b"%d\n" % waiting.popleft())
                if not (line := await process.stdout.readline()):
                    raise RuntimeError(f"a lane has ended with status {await process.wait()}")
                rows.put_nowait(msgspec.json.decode(line, type=Row))
            process.stdin.close()
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            rows.put_nowait(None)

    async with asyncio.TaskGroup() as group:
        for _ in range(lanes):
            group.create_task(lane())
        for _ in range(lanes):
            while (row := await rows.get()) is not None:
                yield row


def kills_of(rows: Iterable[Row]) -> Counter[str]:
    """How many agents were killed, by sort of moment."""
    return sum((Counter(row.kills) for row in rows), Counter[str]())


async def _lane(seed: int, points: int) -> None:
    async with crash_node() as node:
        while line := await asyncio.to_thread(sys.stdin.readline):
            place = int(line)
            change = transitions(seed, place + 1, root=os.geteuid() == 0)[place]
            row = Row(place, change.kind)
            await try_out(node, row, change, points, random.Random(f"{seed}/{place}"))
            sys.stdout.buffer.write(msgspec.json.encode(row) + b"\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_lane(*map(int, sys.argv[1:])))
