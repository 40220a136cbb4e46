"""The gate: targets of the Makefile one after the other, then what each took beside what it is meant to take.

It stops at the first that fails and ends with its status. Nothing fails by the clock: a busy machine is no
defect. The budgets are for two quiet cores and a fresh clone. It needs no `.venv`, which its first row makes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent


class Row(NamedTuple):
    """A part of the gate: its target in the Makefile, and what two quiet cores are meant to need for it."""

    name: str
    target: str
    budget_min: int


class Result(NamedTuple):
    """A row that was run."""

    row: Row
    took_s: float
    status: int


# What soon says that something is wrong comes first.
ROWS: Final = (
    Row("set-up", "setup", 1),
    Row("lint", "lint", 2),
    Row("tests", "test", 4),
    Row("fuzzing", "fuzz-gate", 1),
    Row("long tests", "test-long", 4),
    Row("programs built", "programs", 12),
    Row("genuine suite", "test-kubernetes", 31),
)
ALL_ROWS: Final = (*ROWS, Row("properties", "test-properties", 20))
"""Of `make check-all`, which samples nothing; the budgets are those of the sample, so it goes over them."""
Run = Callable[[str], int]


def run_rows(rows: Sequence[Row], run: Run, clock: Callable[[], float]) -> Iterator[Result]:
    """Each row as it ends; the one that fails is the last."""
    for row in rows:
        print(f"== {row.name}: make {row.target}", flush=True)
        began = clock()
        status = run(row.target)
        yield Result(row, clock() - began, status)
        if status:
            return


def table(rows: Sequence[Row], results: Sequence[Result]) -> str:
    """Budget and time of each row, and below it what took longer than it is meant to, and what failed."""
    found = {result.row: result for result in results}
    lines = [_line("", "budget", "took", "")]
    for row in rows:
        result = found.get(row)
        took = _minutes(result.took_s) if result else "-"
        lines.append(_line(row.name, _minutes(row.budget_min * 60), took, _remark(result)))
    took_s, budget_s = sum(result.took_s for result in results), 60 * sum(row.budget_min for row in rows)
    lines.append(_line("all", _minutes(budget_s), _minutes(took_s), ""))
    over = [result.row.name for result in results if _over_s(result) > 0]
    if over:
        lines.append(f"Over budget (no failure; budgets are for two quiet cores): {', '.join(over)}.")
    lines += [
        f"Failed: make {result.row.target} (status {result.status})." for result in results if result.status
    ]
    return "\n".join(lines)


def _line(name: str, budget: str, took: str, remark: str) -> str:
    return f"{name:<16}{budget:>8}{took:>8}  {remark}".rstrip()


def _remark(result: Result | None) -> str:
    if result is None:
        return "not reached"
    over = [f"{_minutes(_over_s(result))} over"] if _over_s(result) > 0 else []
    return ", ".join([*over, *(["failed"] if result.status else [])])


def _over_s(result: Result) -> float:
    return result.took_s - result.row.budget_min * 60


def _minutes(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02}"


class Make:
    """Runs a target. What asks this process to end is passed on, so that tests tidy up."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._asked_to_end = 0

    def watch_signals(self) -> None:
        """The terminal's Ctrl-C reaches make by itself; other requests do not."""
        signal.signal(signal.SIGINT, self._end)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._end)

    def _end(self, number: int, _frame: FrameType | None) -> None:
        self._asked_to_end = number
        if self._process and number != signal.SIGINT:
            self._process.send_signal(number)

    def __call__(self, target: str) -> int:
        """The exit status; 128 and the signal's number where a signal asked for the end."""
        self._process = subprocess.Popen([self._program, "--no-print-directory", target], cwd=ROOT)
        if self._asked_to_end and self._asked_to_end != signal.SIGINT:
            self._process.send_signal(self._asked_to_end)  # it came before there was whom to pass it on to
        status = self._process.wait()
        if self._asked_to_end:
            return 128 + self._asked_to_end
        return 128 - status if status < 0 else status


def main(arguments: Sequence[str]) -> int:
    """The exit status of the first row that fails; `--all` has more rows."""
    # One seed for all rows, however long they take: midnight changes none of them.
    os.environ["TONNAGE_SEED"] = os.environ.get("TONNAGE_SEED") or datetime.now(UTC).date().isoformat()
    rows = ALL_ROWS if "--all" in arguments else ROWS
    make = Make(os.environ.get("MAKE", "make"))
    make.watch_signals()
    results = list(run_rows(rows, make, time.monotonic))
    print(f"\n{table(rows, results)}", flush=True)
    return results[-1].status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
