"""Where the start of `tonnage --help` and of `tonnage up` spends its time, and its memory: `make profile`.

Phases and memory are of a run with a stopwatch at a dozen places. The imports are of another run, under
`-X importtime`, in which they take longer: compare them with each other, not with the phases.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import command_line
from benchmarks.cluster import (
    NODES,
    cluster,
    resident_mb,
    wait_for_answer,
    wait_for_nodes,
    wait_for_readiness,
)
from benchmarks.imports import import_costs, print_import_costs

ROUNDS = 5
_IMPORT_TIME = (sys.executable, "-X", "importtime", "-m", "tonnage")


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the start, in milliseconds since the process began."""

    name: str
    begins_ms: float
    ends_ms: float


def main() -> None:
    """Print both profiles."""
    _profile_help()
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        _profile_up(Path(folder))


def _profile_help() -> None:
    for figure, values in command_line.measure(ROUNDS).items():
        print(f"{figure}: {statistics.median(values):.3f}")
    run = subprocess.run([*_IMPORT_TIME, "--help"], capture_output=True, text=True, check=True)
    print_import_costs(import_costs(run.stderr.splitlines()))


def _profile_up(folder: Path) -> None:
    marks = folder / "phases"
    stopwatch = (sys.executable, "-m", "benchmarks.stopwatch", str(marks))
    with cluster("twin", NODES, program=stopwatch) as (process, started, environment):
        moments = {"kubectl's first answer (wanted: under 1000)": wait_for_answer(environment)}
        processor_s = _processor_s(process.pid)
        memory = {"at kubectl's first answer": resident_mb(process.pid)}
        moments[f"kubectl lists {NODES} nodes"] = wait_for_nodes(environment)
        moments["all nodes Ready, GPUs advertised"] = wait_for_readiness(environment)
        time.sleep(1)
        memory["at rest (wanted: at most 122)"] = resident_mb(process.pid)
    print(f"\ntonnage up, {NODES} nodes\n  {'began ms':>8}{'took ms':>9}  phase")
    for phase in nested(phases_of(marks.read_text(encoding="utf-8"), started)):
        print(f"  {phase.begins_ms:>8.0f}{phase.ends_ms - phase.begins_ms:>9.0f}  {phase.name}")
    for name, moment in moments.items():
        print(f"  {1000 * (moment - started):>8.0f}{'':>9}  {name}")
    print(f"  {1000 * processor_s:>8.0f} ms of processor time at kubectl's first answer")
    for name, megabytes in memory.items():
        print(f"  {megabytes:>8.1f} MB resident {name}")
    imports = folder / "imports"
    with (
        imports.open("wb") as errors,
        cluster("twin", NODES, program=_IMPORT_TIME, errors=errors) as (_, _, environment),
    ):
        wait_for_answer(environment)
        until_then = imports.read_text(encoding="utf-8")
    print_import_costs(import_costs(until_then.splitlines()))


def _processor_s(pid: int) -> float:
    """Seconds of processor time that a process has had, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def phases_of(marks: str, started: float) -> list[Phase]:
    """As the stopwatch wrote them, in the order in which they began; of two at once the longer first."""
    phases = []
    for mark in marks.splitlines():
        began, ended, name = mark.split("\t")
        phases.append(Phase(name, 1000 * (float(began) - started), 1000 * (float(ended) - started)))
    return sorted(phases, key=lambda phase: (phase.begins_ms, -phase.ends_ms))


def nested(phases: Sequence[Phase]) -> list[Phase]:
    """With names moved to the right below the phases in which they lie."""
    shown: list[Phase] = []
    for phase in phases:
        depth = sum(other.ends_ms >= phase.ends_ms for other in shown)
        shown.append(Phase("  " * depth + phase.name, phase.begins_ms, phase.ends_ms))
    return shown


if __name__ == "__main__":
    main()
