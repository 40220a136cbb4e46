"""NodeResourcesFit, LeastAllocated: the more CPU and memory is left, the better. GPUs do not count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.cluster.rating import HIGHEST, Feasible
from tonnage.decide.cluster.requests import CPU, MEMORY, scored_requests
from tonnage.decide.cluster.view import NodeView, View
from tonnage.model.cluster import Pod

NAME: Final = "NodeResourcesFit"
WEIGHT: Final = 1


def rate(pod: Pod, feasible: Feasible, _view: View) -> Mapping[str, int]:
    """The mean of what would be left of CPU and of memory, in percent.

    Pod-level requests of the pod itself are not looked at here: 1.35's scorer is built without them.
    """
    cpu, memory = scored_requests(pod, pod_level=False)
    return {name: _left(view, cpu, memory) for name, view in feasible.items()}


def _left(view: NodeView, cpu: int, memory: int) -> int:
    total = count = 0
    for name, wanted in ((CPU, view.scored_cpu + cpu), (MEMORY, view.scored_memory + memory)):
        allocatable = view.node.allocatable.get(name, 0)
        if allocatable == 0:
            continue
        count += 1
        if wanted <= allocatable:
            total += (allocatable - wanted) * HIGHEST // allocatable
    return total // count if count else 0
