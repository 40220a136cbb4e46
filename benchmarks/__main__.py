"""Print every figure that the project quotes: `make bench`. Nothing here fails on a figure.

Medians of several runs; each figure stands beside what it is compared with, measured in the same run.
"""

from __future__ import annotations

import sys

from benchmarks import (
    agent,
    cdi,
    claims,
    cluster,
    cluster_metrics,
    command_line,
    dashboards,
    doctor,
    exporter,
    genuine,
    health,
    light,
    mig,
    migcrash,
    pending_claims,
    placing,
    preferred_allocation,
    redaction,
    scale,
    snapshot,
    whatif,
)
from benchmarks.table import Benchmark, print_figures

ROUNDS = 5
LONG = ("clustermetrics", "dashboards", "migcrash")
"""Only when they are asked for."""


def main() -> int:
    """Run all benchmarks but the long ones, or those whose name is an argument."""
    benchmarks: dict[str, Benchmark] = {
        "help": command_line.measure,
        "up": cluster.measure,
        "genuine": genuine.measure,
        "agent": agent.measure,
        "cdi": cdi.measure,
        "claims": claims.measure,
        "clustermetrics": cluster_metrics.measure,
        "dashboards": dashboards.measure,
        "doctor": doctor.measure,
        "exporter": exporter.measure,
        "health": health.measure,
        "light": light.measure,
        "mig": mig.measure,
        "migcrash": migcrash.measure,
        "pendingclaims": pending_claims.measure,
        "preferred": preferred_allocation.measure,
        "placing": placing.measure,
        "redaction": redaction.measure,
        "scale": scale.measure,
        "snapshot": snapshot.measure,
        "whatif": whatif.measure,
    }
    wanted = sys.argv[1:] or [name for name in benchmarks if name not in LONG]
    return print_figures(benchmarks, wanted, rounds=ROUNDS)


if __name__ == "__main__":
    sys.exit(main())
