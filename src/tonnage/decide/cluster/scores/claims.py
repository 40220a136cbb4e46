"""DynamicResources: rates only the rank of a claim's alternatives, so a pod without claims gets nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.cluster.rating import Feasible
from tonnage.decide.cluster.view import View
from tonnage.model.cluster import Pod

NAME: Final = "DynamicResources"
WEIGHT: Final = 2


def rate(_pod: Pod, feasible: Feasible, view: View) -> Mapping[str, int] | None:
    """Zero for all, where the release has this column at all. Pods with claims are not decided here yet."""
    return dict.fromkeys(feasible, 0) if view.profile.scores_claims else None
