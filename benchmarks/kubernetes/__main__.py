"""Print the figures that need a genuine Kubernetes: `make bench-kubernetes`, as root."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from benchmarks.kubernetes import engines, faults, health, idle, node
from benchmarks.table import print_figures
from support.images import prepare_images
from support.own_network import enter_own_network


def main() -> int:
    """Run all benchmarks, or those whose name is an argument."""
    prepare_images()
    enter_own_network()
    return print_figures(
        {
            "pods": node.measure,
            "faults": faults.measure,
            "health": health.measure,
            "idle": idle.measure,
            "engines": engines.measure,
        },
        sys.argv[1:],
        rounds=3,
    )


if __name__ == "__main__":
    sys.exit(main())
