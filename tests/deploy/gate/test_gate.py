"""What the gate prints, where it stops, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from scripts.gate import ALL_ROWS, ROWS, Make, Result, Row, run_rows, table

ROOT = Path(__file__).resolve().parents[3]
FAST, SLOW, LAST = Row("fast", "fast", 1), Row("slow", "slow", 2), Row("last", "last", 3)


def test_each_row_is_a_target_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {row.target for row in ALL_ROWS} <= targets
    assert set(ROWS) <= set(ALL_ROWS)


def test_rows_run_one_after_the_other_and_the_one_that_fails_is_the_last(
    capfd: pytest.CaptureFixture[str],
) -> None:
    ran: list[str] = []

    def run(target: str) -> int:
        ran.append(target)
        return 2 if target == "slow" else 0

    times = count(step=150)
    results = list(run_rows((FAST, SLOW, LAST), run, lambda: float(next(times))))
    assert ran == ["fast", "slow"]
    assert results == [Result(FAST, 150.0, 0), Result(SLOW, 150.0, 2)]
    assert capfd.readouterr().out == "== fast: make fast\n== slow: make slow\n"


def test_the_table_has_budget_and_time_and_says_what_is_over_and_what_failed() -> None:
    results = [Result(FAST, 59.6, 0), Result(SLOW, 150.0, 2)]
    assert table((FAST, SLOW, LAST), results).splitlines() == [
        "                  budget    took",
        "fast                1:00    1:00",
        "slow                2:00    2:30  0:30 over, failed",
        "last                3:00       -  not reached",
        "all                 6:00    3:30",
        "Over budget (no failure; budgets are for two quiet cores): slow.",
        "Failed: make slow (status 2).",
    ]


def test_a_gate_within_its_budget_has_no_more_to_say() -> None:
    assert table((FAST,), [Result(FAST, 12.0, 0)]).splitlines()[1:] == [
        "fast                1:00    0:12",
        "all                 1:00    0:12",
    ]


GATE = """\
import sys, scripts.gate
from pathlib import Path
scripts.gate.ROOT = Path({folder!r})
scripts.gate.ROWS = (scripts.gate.Row("one", "one", 1), scripts.gate.Row("two", "two", 1))
sys.exit(scripts.gate.main([]))
"""


def _gate(folder: Path, makefile: str) -> subprocess.Popen[str]:
    (folder / "Makefile").write_text(makefile)
    return subprocess.Popen(
        [sys.executable, "-c", GATE.format(folder=str(folder))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_it_ends_with_the_status_of_make_after_its_table(tmp_path: Path) -> None:
    with _gate(tmp_path, "one:\n\t@echo seed $$TONNAGE_SEED; exit 3\n") as gate:
        said, _ = gate.communicate(timeout=300)
    assert gate.returncode == 2
    assert re.search(r"^seed \d{4}-\d\d-\d\d$", said, re.MULTILINE)
    assert re.search(r"^two +1:00 +-  not reached$", said, re.MULTILINE)
    assert said.endswith("Failed: make one (status 2).\n")


def test_a_request_to_end_reaches_the_row_and_the_table_is_printed(tmp_path: Path) -> None:
    tidy = "one:\n\t@trap 'echo tidied; exit 1' TERM; echo runs; while :; do sleep 0.1; done\n"
    with _gate(tmp_path, tidy) as gate:
        assert gate.stdout is not None
        assert "runs\n" in gate.stdout  # reads until it comes, or the gate has ended
        os.kill(gate.pid, signal.SIGTERM)
        said = gate.stdout.read()
    assert gate.returncode == 128 + signal.SIGTERM
    assert "tidied" in said
    assert "Failed: make one (status 143).\n" in said


def test_a_program_that_is_not_there_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Make(str(tmp_path / "make"))("setup")
