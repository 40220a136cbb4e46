"""Measures the agent and writes the table of docs/reference/agent-speed.md anew, all of it in one run.

`python -m benchmarks.agent_page` takes four minutes on a machine that does nothing else.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import agent
from scripts.drawing import between

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs/reference/agent-speed.md"
BEGIN: Final = "<!-- measured by python -m benchmarks.agent_page -->\n"
END: Final = "<!-- end of the table -->\n"
ROUNDS: Final = 5
_FLOOR: Final = "Python floor"
_TIMES: Final = " by p50"
"""So ends the name of a figure without a unit."""

Figures = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: figures by their names without what is wanted, `{}` where the side stands."""

    what: str
    figures: tuple[str, ...]
    unit: str
    wanted: str = ""
    side: str = "tonnage"
    floor: bool = True


def _answer(call: str, node: str) -> tuple[str, ...]:
    return tuple(f"{call}, {node}, {{}}: {quantile}, ms" for quantile in ("p50", "p99"))


def _allocate(node: str) -> tuple[str, ...]:
    return (*_answer("Allocate", node), f"Allocate, {node}, {{}}: p99 by p50")


ROWS: Final = (
    Row(
        "start to Register, as it ran last, API server silent",
        ("start to Register, {}, ms",),
        "ms",
        "400 ms on a quiet machine",
    ),
    Row(
        "the first start on a node",
        ("start to Register, {} for the first time on a node, ms",),
        "ms",
        floor=False,
    ),
    Row(
        "kubelet's new socket to Register; with its folder made anew",
        ("kubelet restarts: socket to Register, {}, ms", "  and its folder was made anew, {}, ms"),
        "ms",
        "50 ms",
        floor=False,
    ),
    Row(
        "Allocate, 8 GPUs: p50; p99; p99 by p50",
        _allocate("8 GPUs"),
        "ms",
        "twice the floor; three times its p50",
    ),
    Row(
        "Allocate, 384 replicas, all held: p50; p99; p99 by p50",
        _allocate("8 GPUs of 48 replicas"),
        "ms",
        "the same",
    ),
    Row("Allocate, 64 GPUs of 512 replicas: p50; p99", _answer("Allocate", "64 GPUs of 512 replicas"), "ms"),
    Row("preference of 4 of 8 GPUs: p50; p99", _answer("preferred 4", "8 GPUs"), "ms", "1 ms"),
    Row("preference of 3 of 16 GPUs: p50; p99", _answer("preferred 3", "16 GPUs"), "ms", "1 ms"),
    Row(
        "preference of 48 of 384 replicas: p50; p99",
        _answer("preferred 48", "8 GPUs of 48 replicas"),
        "ms",
        "5 ms",
    ),
    Row(
        "at rest: share of a core, without a cluster",
        ("idle, {}: per cent of a core",),
        "%",
        "0.3 %",
        side="tonnage without a cluster",
    ),
    Row(
        "at rest while the API server is dead, asked every twenty seconds",
        ("idle, {}: per cent of a core",),
        "%",
        "the same",
        side="tonnage, its API server is dead",
    ),
    Row(
        f"resident memory without a cluster; after {agent.MANY_CALLS:,} calls",
        ("  resident memory, MB ({})", f"  after {agent.MANY_CALLS} calls, MB ({{}})"),
        "MB",
        "80 MB",
        side="tonnage without a cluster",
    ),
    Row(
        f"resident memory with a cluster, and metrics; after {agent.MANY_CALLS:,} calls",
        ("  resident memory, MB ({})", f"  after {agent.MANY_CALLS} calls, MB ({{}})"),
        "MB",
        "80 MB",
        floor=False,
    ),
)


def table(figures: Figures) -> str:
    """The rows, with the median of each figure, and least and most where they differ from it.

    Raises KeyError for a figure that was not measured: the row's name is old.
    """
    measured = {name.partition(" (wanted")[0]: values for name, values in figures.items()}
    lines = ["| what | agent | floor | wanted |", "|---|---|---|---|"]
    for row in ROWS:
        floor = "; ".join(_shown(measured, row, _FLOOR)) if row.floor else ""
        lines.append(
            f"| {row.what} | {'; '.join(_shown(measured, row, row.side))} | {floor} | {row.wanted} |"
        )
    return "".join(f"{line}\n" for line in lines)


def _shown(measured: Figures, row: Row, side: str) -> Iterator[str]:
    for figure in row.figures:
        values = measured[figure.format(side)]
        median, least, most = (
            _rounded(each) for each in (statistics.median(values), min(values), max(values))
        )
        spread = "" if least == median == most else f" ({least} to {most})"
        unit = "" if figure.endswith(_TIMES) else f" {row.unit}"
        yield f"{median}{unit}{spread}"


def _rounded(value: float) -> str:
    """Two digits that count, and no fraction from a hundred on."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}" if value >= 0.1 else f"{value:.2f}"


def main() -> None:
    """Measure and write."""
    measured = table(agent.measure(ROUNDS))
    PAGE.write_text(between(PAGE.read_text(encoding="utf-8"), BEGIN, END, measured), encoding="utf-8")


if __name__ == "__main__":
    main()
