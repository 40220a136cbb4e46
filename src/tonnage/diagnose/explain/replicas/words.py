"""How many pods of a series fit, in words."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tonnage.diagnose.explain.replicas.placing import SeriesFate, Shortage
from tonnage.diagnose.explain.replicas.room import ClusterCapacity
from tonnage.model.name_lists import shown_of
from tonnage.model.verdict import Explanation

_ORDINALS: Final = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)
_MOST_NODES: Final = 4


def all_fit(fate: SeriesFate) -> str:
    """That every pod has a place, and where."""
    series, counts = fate.series, Counter(fate.nodes.values())
    if series.nodes is not None:
        where = shown_of([*counts][:_MOST_NODES], len(counts))
        return f"one pod on each of {len(counts):,} nodes: {where}" if len(counts) > 1 else f"fits: {where}"
    shown = [f"{count:,} on {node}" for node, count in sorted(counts.items(), key=lambda e: (-e[1], e[0]))]
    where = shown_of(shown[:_MOST_NODES], len(shown)).replace(" more", " more nodes")
    completions = series.manifest.completions
    at_once = completions is not None and completions > series.count
    which = f" that run at a time (of {completions:,})" if at_once else ""
    return f"{every_pod(series.count)}{which} fit: {where}"


def every_pod(count: int) -> str:
    """All of so many pods.

    >>> every_pod(2), every_pod(3)
    ('both pods', 'all 3 pods')
    """
    return "both pods" if count == 2 else f"all {count:,} pods"


def short_of(fate: SeriesFate, first: Explanation, room: ClusterCapacity | None) -> str:
    """How many fit, what keeps the next, and of a workload that never fits, how many would at most."""
    series, there = fate.series, len(fate.nodes)
    some = f"{there:,} of {series.count:,} pods fit{'s' if there == 1 else ''}"
    head = some if there else f"none of the {series.count:,} pods fits"
    tail = f"; {at_most(room, series.count)}" if room is not None else ""
    refused = fate.shortage is not None and fate.shortage.refusal is not None
    why = first.reasons[0].message if refused and first.reasons else first.message
    return f"{head}; {_rest(fate)}: {why}{tail}"


def at_most(room: ClusterCapacity, count: int) -> str:
    """How many pods the cluster holds, whatever else ends."""
    return f"even if it were empty, the cluster would have room for {room.pods:,} of {count:,}"


def in_turn(shortage: Shortage) -> str:
    """Why a pod waits that would have a place by itself."""
    return "pods of higher priority take its place" if not shortage.preempts else "other pods must end for it"


def _rest(fate: SeriesFate) -> str:
    """The pods without a place, with what they do."""
    series, there, shortage = fate.series, len(fate.nodes), fate.shortage
    waits = series.count - there
    refused = shortage is not None and shortage.refusal is not None
    fails = shortage is not None and shortage.fails
    if shortage is not None and series.manifest.in_order and waits > 1:
        name = series.name(shortage.index)
        verb = "is refused" if refused else "does not start" if fails else "waits"
        after = "the next is" if waits == 2 else f"the {waits - 1:,} after it are"
        return f"{name} {verb}, and {after} created once it is ready"
    if shortage is not None and shortage.nodes:
        shown = shown_of([*shortage.nodes[:_MOST_NODES]], len(shortage.nodes))
        if fails:
            return f"the one for {shown} does not start" if waits == 1 else f"those for {shown} do not start"
        return f"the one for {shown} waits" if waits == 1 else f"those for {shown} wait"
    if waits == 1:
        which = _ordinal(shortage.index if shortage is not None else there, series.count)
        if fails:
            return f"{which} does not start"
        return f"the API server refuses {which}" if refused else f"{which} waits"
    which = f"the other {waits:,}" if there else "each"
    if fails:
        return f"{which} do{'' if there else 'es'} not start"
    return f"the API server refuses {which}" if refused else f"{which} wait{'' if there else 's'}"


def _ordinal(index: int, count: int) -> str:
    if index < len(_ORDINALS):
        return f"the {_ORDINALS[index]}"
    return "the last" if index == count - 1 else f"number {index + 1:,}"
