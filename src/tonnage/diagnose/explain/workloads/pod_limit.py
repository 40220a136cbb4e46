"""That a workload of the cluster asks for more pods than the cluster can ever run at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tonnage.decide.kubernetes.view import ClusterView
from tonnage.diagnose.explain.replicas.remedies import remedies_of
from tonnage.diagnose.explain.replicas.room import nodes_to_add, room_for
from tonnage.diagnose.explain.replicas.series import ENDING, series_of
from tonnage.diagnose.explain.replicas.words import at_most
from tonnage.diagnose.explain.workloads.pods import Family
from tonnage.model.kubernetes.cluster import Manifest
from tonnage.model.verdict import Remedy


@dataclass(frozen=True, slots=True)
class PodLimit:
    """How many pods have room, in words, and what helps."""

    sentence: str
    remedies: tuple[Remedy, ...]


def pod_limit(
    manifest: Manifest,
    family: Family,
    view: ClusterView,
    there: int,
    own: tuple[Remedy, ...],
    version: str,
) -> PodLimit | None:
    """None where all of them have room once others have ended. `there`: how many have a place now.

    `own`: what helps one of the others.
    """
    kind = family.head.key.kind
    if kind in (*ENDING, "DaemonSet") or not family.head.desired:
        return None
    whole = replace(manifest, kind=kind, name=family.head.key.name, replicas=family.head.desired)
    series = series_of(whole, view)
    room = room_for(series, view.snapshot, version)
    if room.pods >= series.count:
        return None
    pods = {pod.key for pod in family.pods}
    others = replace(view.snapshot, pods=tuple(p for p in view.snapshot.pods if p.key not in pods))
    more = nodes_to_add(series, others, room, version)
    remedies = remedies_of(series, there, own, more)
    return PodLimit(at_most(room, series.count), remedies)
