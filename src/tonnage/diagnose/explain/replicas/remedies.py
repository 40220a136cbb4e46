"""What helps a workload of which some pods have no place: more room first, then asking for less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.explain.replicas.room import ClusterCapacity, nodes_to_add
from tonnage.diagnose.explain.replicas.series import PodSeries
from tonnage.diagnose.explain.replicas.words import every_pod
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.verdict import Remedy

_SCALED: Final = ("Deployment", "ReplicaSet", "StatefulSet")


def remedies_of(
    series: PodSeries,
    there: int,
    own: tuple[Remedy, ...],
    base: Snapshot,
    room: ClusterCapacity | None,
    version: str,
) -> tuple[Remedy, ...]:
    """Those of the first pod without a place, beside more nodes and no more pods than are `there`.

    `room`: what the nodes hold at most, where that is too little.
    """
    waits = series.count - there
    if waits > 1:
        own = tuple(Remedy(r.action, f"for one of the {waits:,}: {r.effect}", r.patch) for r in own)
    more = nodes_to_add(series, base, room, version) if room is not None else None
    added: tuple[Remedy, ...] = ()
    if more is not None:
        name, count = more
        nodes = "a node" if count == 1 else f"{count} nodes"
        added = (Remedy(f"add {nodes} like {name}", f"{every_pod(series.count)} fit"),)
    return (*added, *own, *_fewer(series, there))


def _fewer(series: PodSeries, there: int) -> Iterator[Remedy]:
    """No more pods than have a place."""
    if series.kind in _SCALED and there:
        patch: JsonObject = {"spec": {"replicas": there}}
        some = f"{there:,} replica{'' if there == 1 else 's'}"
        yield Remedy(f"ask for {some}, not {series.count:,}", "what is asked for fits", patch)
