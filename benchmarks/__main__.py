"""Print every figure that the project quotes: `make bench`. Nothing here fails on a figure.

Medians of several runs; each figure stands beside what it is compared with, measured in the same run.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

from benchmarks import agent, cluster, command_line, genuine

ROUNDS = 5


def main() -> int:
    """Run all benchmarks, or those whose name is an argument."""
    benchmarks: dict[str, Callable[[int], dict[str, list[float]]]] = {
        "help": command_line.measure,
        "up": cluster.measure,
        "genuine": genuine.measure,
        "agent": agent.measure,
    }
    chosen = sys.argv[1:] or list(benchmarks)
    unknown = set(chosen) - benchmarks.keys()
    if unknown:
        print(
            f"unknown benchmark {', '.join(sorted(unknown))}; there are {', '.join(benchmarks)}",
            file=sys.stderr,
        )
        return 2
    print(f"{'figure':<80}{'median':>10}{'min':>10}{'max':>10}   runs")
    for name in chosen:
        for figure, values in benchmarks[name](ROUNDS).items():
            shown = (f"{value:>10.3f}" for value in (statistics.median(values), min(values), max(values)))
            print(f"{figure:<80}{''.join(shown)}   {len(values)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
