"""How long it takes to plan MIG layouts: a node's eight GPUs, and a thousand such nodes.

Every GPU has instances and holders of its own by chance, so that little of it is the same twice.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from tonnage.decide.node.mig import plan
from tonnage.decide.node.mig.goal import MigGpu, goals_by_entries
from tonnage.decide.node.mig.plan import Instance
from tonnage.diagnose.mig.plans import demand_on
from tonnage.model.catalog.mig import mig_model
from tonnage.model.mig.geometry import all_layouts
from tonnage.model.mig.layouts import MigEntry

NODES = 1000
GPUS = 8
PRODUCT = "NVIDIA A100-SXM4-80GB"
MIXED = (
    MigEntry((0, 1), False, {}),
    MigEntry((2, 3), True, {"1g.10gb": 7}),
    MigEntry((4, 5), True, {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}),
    MigEntry((6, 7), True, {"2g.20gb": 3, "1g.10gb": 1}),
)


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds of CPU, nothing remembered from one round to the next."""
    _plan(_fleet(1, 0))  # the catalogue is read once
    node = [1000 * _planned(_fleet(1, seed)) for seed in range(rounds)]
    fleet = [_planned(_fleet(NODES, seed)) for seed in range(rounds)]
    demand = [_packed() for _ in range(rounds)]
    return {
        f"MIG plan of a node with {GPUS} GPUs, ms (wanted: under 10)": node,
        f"MIG plans of {NODES} nodes with {GPUS} GPUs each, s (wanted: under 2)": fleet,
        "fewest GPUs for 1,000 services of four sizes, s": demand,
    }


def _planned(fleet: Sequence[tuple[MigGpu, ...]]) -> float:
    plan._kept_places.cache_clear()
    start = time.process_time()
    _plan(fleet)
    return time.process_time() - start


def _plan(fleet: Sequence[tuple[MigGpu, ...]]) -> None:
    for gpus in fleet:
        goals = goals_by_entries(gpus, MIXED)
        assert all(goal.plan is not None for goal in goals)


def _packed() -> float:
    start = time.process_time()
    demand_on("A100-80", {9800: 600, 19000: 250, 40000: 100, 80000: 50})
    return time.process_time() - start


def _fleet(nodes: int, seed: int) -> list[tuple[MigGpu, ...]]:
    chance = random.Random(seed)
    board = mig_model(PRODUCT)
    assert board is not None
    layouts = [*all_layouts(board)]
    return [
        tuple(
            MigGpu(index, PRODUCT, f"GPU-{number}-{index}", _instances(chance, chance.choice(layouts)), True)
            for index in range(GPUS)
        )
        for number in range(nodes)
    ]


def _instances(chance: random.Random, layout: Sequence[tuple[str, int]]) -> tuple[Instance, ...]:
    return tuple(
        Instance(
            name,
            start,
            f"MIG-{start}",
            tuple(f"ml/pod-{chance.randrange(6)}" for _ in range(chance.randrange(3))),
        )
        for name, start in layout
    )
