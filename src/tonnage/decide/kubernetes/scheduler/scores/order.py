"""The scores of the default profile."""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.scheduler.scores import (
    balanced,
    claims,
    image_locality,
    node_affinity,
    pod_affinity,
    resources_fit,
    storage,
    taints,
    topology_spread,
)
from tonnage.decide.kubernetes.scheduler.scoring import Score

SCORES: Final[tuple[Score, ...]] = (
    taints,
    node_affinity,
    resources_fit,
    storage,
    topology_spread,
    pod_affinity,
    claims,
    balanced,
    image_locality,
)
