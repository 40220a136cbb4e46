"""NodeResourcesBalancedAllocation: resources should be used alike; by default CPU and memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tonnage.decide.kubernetes.requests import CPU, EPHEMERAL, MEMORY, pod_requests
from tonnage.decide.kubernetes.scheduler.scoring import HIGHEST, Feasible
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Pod

NAME: Final = "NodeResourcesBalancedAllocation"
WEIGHT: Final = 1


def rate(pod: Pod, feasible: Feasible, view: ClusterView) -> Mapping[str, int] | None:
    """How alike the used shares would be, in percent; skipped for a pod that asks none of them."""
    all_requests = pod_requests(pod)
    requests = {name: all_requests.get(name, 0) for name in view.settings(pod).balanced}
    if not any(requests.values()):
        return None
    if view.profile.rates_change_of_balance:
        return {name: _change(node, requests) for name, node in feasible.items()}
    return {name: _balance(node, requests, placed=True) for name, node in feasible.items()}


def _change(view: NodeView, requests: Mapping[str, int]) -> int:
    """How much more alike the pod makes them: 75 is no change, 100 the most, 50 the worst."""
    gained = _balance(view, requests, placed=True) - _balance(view, requests, placed=False)
    return HIGHEST // 2 + (HIGHEST // 2 + gained) // 2


def _balance(view: NodeView, requests: Mapping[str, int], *, placed: bool) -> int:
    shares: list[float] = []
    for name, amount in requests.items():
        allocatable = view.node.allocatable.get(name, 0)
        if allocatable and (amount or name in (CPU, MEMORY, EPHEMERAL)):
            used = view.requested.get(name, 0) + (amount if placed else 0)
            shares.append(min(1.0, used / allocatable))
    return int((1 - _deviation(shares)) * HIGHEST)


def _deviation(shares: list[float]) -> float:
    if len(shares) == 2:
        return abs((shares[0] - shares[1]) / 2)
    if len(shares) < 2:
        return 0.0
    total = 0.0
    for share in shares:  # in turn, as the scheduler adds them: sum() is more exact
        total += share
    mean, squares = total / len(shares), 0.0
    for share in shares:
        squares += (share - mean) * (share - mean)
    return math.sqrt(squares / len(shares))
