"""The table of figures: a line each, with median, least and most of its runs."""

from __future__ import annotations

import math
import re
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

_LIMIT: Final = re.compile(r"\(wanted: under (\d+)\)")
Benchmark = Callable[[int], dict[str, list[float]]]
"""Takes the number of rounds; gives each figure's name and the values of its runs."""


def print_figures(benchmarks: Mapping[str, Benchmark], wanted: Sequence[str], *, rounds: int) -> int:
    """Run the wanted ones, or all, and print what they give; the exit status."""
    unknown = set(wanted) - benchmarks.keys()
    if unknown:
        names = ", ".join(sorted(unknown))
        print(f"error: unknown benchmark {names}; there are {', '.join(benchmarks)}", file=sys.stderr)
        return 2
    print(f"{'figure':<80}{'median':>10}{'min':>10}{'max':>10}   runs")
    for name in wanted or benchmarks:
        for figure, values in benchmarks[name](rounds).items():
            shown = map(_shown, (statistics.median(values), min(values), max(values)))
            print(f"{figure:<80}{''.join(shown)}   {len(values)}{_verdict(figure, values)}", flush=True)
    return 0


def _verdict(figure: str, values: Sequence[float]) -> str:
    """Whether each run keeps the limit that the figure's name has; empty: it has none."""
    limit = _LIMIT.search(figure)
    if limit is None:
        return ""
    return "  met" if max(values) < float(limit[1]) else "  NOT MET"


def _shown(value: float) -> str:
    return f"{'never':>10}" if math.isinf(value) else f"{value:>10.3f}"
