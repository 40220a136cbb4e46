"""How many pods of a series the nodes have room for with nothing else there, and how many more nodes do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from tonnage.decide.kubernetes.view import view_of
from tonnage.diagnose.explain.replicas.placing import queue_on
from tonnage.diagnose.explain.replicas.series import PodSeries
from tonnage.diagnose.simulate.changed_cluster import stays_with_node
from tonnage.model.kubernetes.cluster import Node, Snapshot
from tonnage.model.kubernetes.policies import Quota

_MOST_ADDED: Final = 64
"""Nodes that are added for a trial."""
_HOSTNAME: Final = "kubernetes.io/hostname"
_OWN_TAINTS: Final = "node.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class ClusterCapacity:
    """How many pods have a place, and how many of them on each node."""

    pods: int
    by_node: Mapping[str, int]


def room_for(
    series: PodSeries, snapshot: Snapshot, version: str, together: Sequence[PodSeries] = ()
) -> ClusterCapacity:
    """The room that the cluster has, every node repaired and open, no quota used, daemons alone beside.

    `together`: all pods of the same object, this series among them.
    """
    pods = tuple(pod for pod in snapshot.pods if stays_with_node(pod))
    claims = tuple(replace(claim, allocation=None, reserved_for=()) for claim in snapshot.claims)
    nodes, quotas = tuple(map(_repaired, snapshot.nodes)), tuple(map(_unused, snapshot.quotas))
    empty = replace(snapshot, nodes=nodes, pods=pods, claims=claims, quotas=quotas)
    return _room_on(series, empty, version, together)


def nodes_to_add(
    series: PodSeries,
    snapshot: Snapshot,
    room: ClusterCapacity,
    version: str,
    together: Sequence[PodSeries] = (),
) -> tuple[str, int] | None:
    """A node of which some more would make room for all pods as the cluster stands, and how many.

    `together`: all pods of the same object, this series among them. None where no node of the cluster takes
    such a pod, or where too many would be needed to try it.
    """
    if not room.by_node:
        return None
    name = max(sorted(room.by_node), key=lambda node: room.by_node[node])
    model = next(node for node in snapshot.nodes if node.name == name)
    here = _room_on(series, snapshot, version, together)
    count = ceil((series.count - here.pods) / room.by_node[name])
    if not 0 < count <= _MOST_ADDED:
        return None
    more = tuple(_copied(_repaired(model), f"{name}-more-{number}") for number in range(count))
    status = snapshot.gpu.get(name)
    gpu = {node.name: replace(status, node=node.name) for node in more} if status is not None else {}
    larger = replace(snapshot, nodes=(*snapshot.nodes, *more), gpu={**snapshot.gpu, **gpu})
    enough = _room_on(series, larger, version, together).pods >= series.count
    return (name, count) if enough else None


def _room_on(
    series: PodSeries, snapshot: Snapshot, version: str, together: Sequence[PodSeries]
) -> ClusterCapacity:
    fates = queue_on(view_of(snapshot, version=version)).run(together or [series])
    fate = next(fate for fate in fates if fate.series is series)
    return ClusterCapacity(len(fate.nodes), Counter(fate.nodes.values()))


def _repaired(node: Node) -> Node:
    devices = {name: amount for name, amount in node.capacity.items() if "/" in name}
    taints = tuple(taint for taint in node.taints if not taint.key.startswith(_OWN_TAINTS))
    allocatable = {**node.allocatable, **devices}
    return replace(node, unschedulable=False, taints=taints, allocatable=allocatable)


def _copied(node: Node, name: str) -> Node:
    return replace(node, name=name, labels={**node.labels, _HOSTNAME: name})


def _unused(quota: Quota) -> Quota:
    return replace(quota, used=dict.fromkeys(quota.hard, "0"), counted=True)
