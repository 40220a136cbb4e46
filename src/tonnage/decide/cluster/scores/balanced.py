"""NodeResourcesBalancedAllocation: CPU and memory used in like proportion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.cluster.rating import HIGHEST, Feasible
from tonnage.decide.cluster.requests import CPU, MEMORY, pod_requests
from tonnage.decide.cluster.view import NodeView, View
from tonnage.model.cluster import Pod

NAME: Final = "NodeResourcesBalancedAllocation"
WEIGHT: Final = 1


def rate(pod: Pod, feasible: Feasible, view: View) -> Mapping[str, int] | None:
    """How alike the used shares would be, in percent; skipped for a pod that asks neither."""
    wanted = pod_requests(pod)
    cpu, memory = wanted.get(CPU, 0), wanted.get(MEMORY, 0)
    if cpu == 0 and memory == 0:
        return None
    if view.profile.rates_change_of_balance:
        return {name: _change(node, cpu, memory) for name, node in feasible.items()}
    return {name: _balance(node, cpu, memory) for name, node in feasible.items()}


def _change(view: NodeView, cpu: int, memory: int) -> int:
    """How much more alike the pod makes them: 75 is no change, 100 the most, 50 the worst."""
    gained = _balance(view, cpu, memory) - _balance(view, 0, 0)
    return HIGHEST // 2 + (HIGHEST // 2 + gained) // 2


def _balance(view: NodeView, cpu: int, memory: int) -> int:
    shares: list[float] = []
    for name, amount in ((CPU, cpu), (MEMORY, memory)):
        allocatable = view.node.allocatable.get(name, 0)
        if allocatable:
            shares.append(min(1.0, (view.requested.get(name, 0) + amount) / allocatable))
    deviation = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
    return int((1 - deviation) * HIGHEST)
