"""Print what the cluster controller costs on a large fleet: `make bench-operator`.

Each figure stands beside what is wanted. `--genuine`: also on a genuine control plane, in the same run.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial

from benchmarks.operating.fleet import Course, PlaneMaker, measure
from benchmarks.operating.planes import genuine_plane, twin_plane
from benchmarks.table import print_figures
from tonnage.cli.locations.binaries import find_binaries


def main() -> int:
    """Parse the flags and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operating")
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--at-rest", action="store_true", help="the nodes are labelled and validated already")
    parser.add_argument("--genuine", action="store_true", help="also on a genuine control plane")
    parser.add_argument("--only-genuine", action="store_true", help="not on the twin")
    parser.add_argument("--rest", type=float, default=120.0, metavar="SECONDS", help="how long it is at rest")
    parser.add_argument(
        "--cluster-metrics", type=float, default=0.0, metavar="SECONDS", help="metrics of the cluster, too"
    )
    options = parser.parse_args()
    course = Course(options.nodes, options.at_rest, options.rest, options.cluster_metrics)
    sides: dict[str, PlaneMaker] = {} if options.only_genuine else {"twin": twin_plane}
    if options.genuine or options.only_genuine:
        folder = find_binaries(os.environ).folder
        sides["genuine"] = partial(genuine_plane, folder)
    return print_figures(
        {side: partial(measure, side, plane, course) for side, plane in sides.items()},
        [],
        rounds=1,
    )


if __name__ == "__main__":
    sys.exit(main())
