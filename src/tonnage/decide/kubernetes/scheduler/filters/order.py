"""The filters in the order in which the default profile asks them; each node hears the first that refuses."""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.scheduler.filters import (
    claims,
    node_affinity,
    node_name,
    node_unschedulable,
    pod_affinity,
    ports,
    resources,
    taints,
    topology_spread,
    volume_use,
    volumes,
)
from tonnage.decide.kubernetes.scheduler.refusal import Filter

FILTERS: Final[tuple[Filter, ...]] = (
    node_unschedulable,
    node_name,
    taints,
    node_affinity,
    ports,
    resources,
    volume_use,
    volumes,
    topology_spread,
    pod_affinity,
    claims,
)
