"""TaintToleration: the fewer PreferNoSchedule taints the pod does not tolerate, the better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.kubernetes.matching import untolerated
from tonnage.decide.kubernetes.scheduler.scoring import Feasible, scaled
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.model.kubernetes.cluster import Pod

NAME: Final = "TaintToleration"
WEIGHT: Final = 3
_SOFT: Final = "PreferNoSchedule"


def rate(pod: Pod, feasible: Feasible, _view: ClusterView) -> Mapping[str, int]:
    """Count untolerated soft taints; only tolerations for that effect, or for all effects, count."""
    soft_tolerations = [t for t in pod.tolerations if t.effect in ("", _SOFT)]
    raw = {
        name: len(untolerated(view.node.taints, soft_tolerations, (_SOFT,)))
        for name, view in feasible.items()
    }
    return scaled(raw, reverse=True)
