"""VolumeBinding: what storage a volume would leave on a node. A pod without volumes has the column too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.kubernetes.scheduler.scoring import Feasible
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.model.kubernetes.cluster import Pod

NAME: Final = "VolumeBinding"
WEIGHT: Final = 1


def rate(_pod: Pod, feasible: Feasible, view: ClusterView) -> Mapping[str, int] | None:
    """Nothing, where the release has this column at all: volumes that are yet to be made are not decided."""
    return dict.fromkeys(feasible, 0) if view.profile.scores_storage else None
