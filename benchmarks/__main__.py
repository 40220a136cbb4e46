"""Print every figure that the project quotes: `make bench`. Nothing here fails on a figure.

Medians of several runs; each figure stands beside what it is compared with, measured in the same run.
"""

from __future__ import annotations

import sys

from benchmarks import (
    agent,
    cdi,
    cluster,
    command_line,
    doctor,
    genuine,
    health,
    mig,
    placing,
    preferred_allocation,
    scale,
    snapshot,
    whatif,
)
from benchmarks.table import print_figures

ROUNDS = 5


def main() -> int:
    """Run all benchmarks, or those whose name is an argument."""
    return print_figures(
        {
            "help": command_line.measure,
            "up": cluster.measure,
            "genuine": genuine.measure,
            "agent": agent.measure,
            "cdi": cdi.measure,
            "doctor": doctor.measure,
            "health": health.measure,
            "mig": mig.measure,
            "preferred": preferred_allocation.measure,
            "placing": placing.measure,
            "scale": scale.measure,
            "snapshot": snapshot.measure,
            "whatif": whatif.measure,
        },
        sys.argv[1:],
        rounds=ROUNDS,
    )


if __name__ == "__main__":
    sys.exit(main())
