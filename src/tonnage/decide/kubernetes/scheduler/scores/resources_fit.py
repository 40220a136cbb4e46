"""NodeResourcesFit: how much would be left, or taken. By default of CPU and memory; GPUs do not count."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tonnage.decide.kubernetes.requests import CPU, EPHEMERAL, MEMORY, asked_for_scores
from tonnage.decide.kubernetes.scheduler.scoring import HIGHEST, Feasible
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.scheduler_profile import FitRating, Strategy

NAME: Final = "NodeResourcesFit"
WEIGHT: Final = 1
_STEPS: Final = 10
"""Scores of a shape go from 0 to this."""


def rate(pod: Pod, feasible: Feasible, view: ClusterView) -> Mapping[str, int]:
    """The mean over the profile's resources of what is left (or taken, or what the shape gives), in percent.

    Pod-level requests of the pod itself are not looked at here: 1.35's scorer is built without them.
    """
    rating, requests = view.settings(pod).fit, asked_for_scores(pod)
    return {name: _rated(node, requests, rating) for name, node in feasible.items()}


def _rated(node: NodeView, requests: Mapping[str, int], rating: FitRating) -> int:
    total = weights = 0
    for name, weight in rating.resources:
        there = node.node.allocatable.get(name, 0)
        amount = requests.get(name, 0)
        if there == 0 or (amount == 0 and name not in (CPU, MEMORY, EPHEMERAL)):
            continue
        part = _part(_used(node, name) + amount, there, rating)
        if part or rating.strategy is not Strategy.RATIO:
            total, weights = total + part * weight, weights + weight
    if not weights:
        return 0
    return math.floor(total / weights + 0.5) if rating.strategy is Strategy.RATIO else total // weights


def _used(node: NodeView, name: str) -> int:
    """What is taken, where a container that asks for no CPU or memory counts as a small one."""
    match name:
        case "cpu":
            return node.scored_cpu
        case "memory":
            return node.scored_memory
        case _:
            return node.requested.get(name, 0)


def _part(amount: int, there: int, rating: FitRating) -> int:
    match rating.strategy:
        case Strategy.LEAST:
            return (there - amount) * HIGHEST // there if amount <= there else 0
        case Strategy.MOST:
            return min(amount, there) * HIGHEST // there
        case Strategy.RATIO:
            return shaped(rating.shape, amount * 100 // there if amount <= there else 100)


def shaped(shape: tuple[tuple[int, int], ...], share: int) -> int:
    """The score of a used share in percent: straight between the points of a shape, level beyond them.

    >>> [shaped(((0, 10), (50, 0), (100, 5)), share) for share in (0, 30, 50, 75)]
    [100, 40, 0, 25]
    """
    scale = HIGHEST // _STEPS
    before: tuple[int, int] | None = None
    for at, score in shape:
        if share <= at:
            if before is None:
                return score * scale
            rise = (score - before[1]) * scale * (share - before[0])
            return before[1] * scale + int(rise / (at - before[0]))
        before = at, score
    return shape[-1][1] * scale
