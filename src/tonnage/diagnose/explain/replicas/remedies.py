"""What helps a workload of which some pods have no place: more room first, then asking for less."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from tonnage.diagnose.explain.replicas.series import PodSeries
from tonnage.diagnose.explain.replicas.words import every_pod
from tonnage.model.json import JsonObject
from tonnage.model.verdict import Remedy

_SCALED: Final = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")


def remedies_of(
    series: PodSeries,
    there: int,
    own: tuple[Remedy, ...],
    more: tuple[str, int] | None,
) -> tuple[Remedy, ...]:
    """The `own` of the pods without a place, beside more nodes and no more pods than are `there`.

    `more`: a node and how many more of it make room for all, where the nodes are too few.
    """
    added: tuple[Remedy, ...] = ()
    if more is not None:
        name, count = more
        nodes = "a node" if count == 1 else f"{count} nodes"
        added = (Remedy(f"add {nodes} like {name}", f"{every_pod(series.count)} fit"),)
    return (*added, *own, *_fewer(series, there))


def for_all(
    remedies: Iterable[Remedy],
    count: int,
    there: int,
    fit_after: Callable[[Remedy], int | None],
    untried: str = "",
) -> Iterator[Remedy]:
    """The remedies of one pod, each with what it brings to all `count` of them, of which some are `there`.

    `fit_after` tries one with all pods; None: that was not tried, for what `untried` says. One that brings
    nothing is left out.
    """
    waits = count - there
    for remedy in remedies:
        fit = fit_after(remedy)
        if fit is None:
            effect = f"for one of the {waits:,}: {remedy.effect}" if waits > 1 and there else remedy.effect
            yield replace(remedy, effect=f"{effect}{untried}" if effect else "")
        elif fit > there:
            some = f"{fit:,} of {count:,} pods fit{'s' if fit == 1 else ''}"
            brings = f"{every_pod(count)} fit" if fit >= count else some
            yield replace(remedy, effect=f"{remedy.effect}; {brings}")


def _fewer(series: PodSeries, there: int) -> Iterator[Remedy]:
    """No more pods than have a place."""
    if series.kind in _SCALED and there and series.manifest.pod_set is None:
        patch: JsonObject = {"spec": {"replicas": there}}
        some = f"{there:,} replica{'' if there == 1 else 's'}"
        yield Remedy(f"ask for {some}, not {series.count:,}", "what is asked for fits", patch)
