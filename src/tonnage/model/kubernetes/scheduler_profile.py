"""A profile of kube-scheduler: which plugins it asks, in which order, and how it weighs nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tonnage.model.kubernetes.selectors import NodeSelectorTerm

DEFAULT_NAME: Final = "default-scheduler"


class Strategy(StrEnum):
    """How NodeResourcesFit rates what is taken of a node."""

    LEAST = "LeastAllocated"
    MOST = "MostAllocated"
    RATIO = "RequestedToCapacityRatio"


@dataclass(frozen=True, slots=True)
class FitRating:
    """Weight by resource; `shape`: for RATIO points of (used share in percent, score from 0 to 10)."""

    strategy: Strategy = Strategy.LEAST
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    shape: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class DefaultSpread:
    """A spread constraint for pods of workloads that have none of their own."""

    topology_key: str
    max_skew: int
    hard: bool


@dataclass(frozen=True, slots=True)
class AddedAffinity:
    """Node affinity that the profile adds to every pod's own. `required` None: nothing is required."""

    required: tuple[NodeSelectorTerm, ...] | None = None
    preferred: tuple[tuple[int, NodeSelectorTerm], ...] = ()


@dataclass(frozen=True, slots=True)
class SchedulerProfile:
    """A profile by the name that pods give as schedulerName.

    `filters`: names in the order in which nodes are asked; None: as the release has them. `weights`: by
    plugin that scores; None: the release's. `spread`: None: the cluster's own rule. `unknown`: what it has
    that nobody here knows, such as plugins that are not the release's own.
    """

    name: str = DEFAULT_NAME
    filters: tuple[str, ...] | None = None
    weights: Mapping[str, int] | None = None
    preempts: bool = True
    frees_claims: bool = True
    fit: FitRating = FitRating()
    ignored: tuple[str, ...] = ()
    """Extended resources that NodeResourcesFit overlooks: `example.com/nic`, or a group: `example.com/*`."""
    balanced: tuple[str, ...] = ("cpu", "memory")
    affinity: AddedAffinity = AddedAffinity()
    spread: tuple[DefaultSpread, ...] | None = None
    required_weight: int = 1
    """What the required affinity of a pod that runs for this one adds (hardPodAffinityWeight)."""
    overlooks_preferred: bool = False
    """Preferred terms of pods that run count only for pods that have terms of their own."""
    percent: int = 0
    """Of nodes that fit, at least so many are rated; 0: as many as the release thinks fit."""
    least_candidates: int = 100
    candidates_percent: int = 10
    unknown: tuple[str, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether it decides as a scheduler without configuration."""
        return self == SchedulerProfile(self.name)
