"""Who holds which device: what kubelet says, joined with what was answered and kubelet has not shown yet.

kubelet shows an allocation only after it was answered; the ledger covers the time between, and every time in
which kubelet cannot be asked. It errs towards "held": a device is free only when kubelet said so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from tonnage.model.sharing import Allocation, Hold

UNSEEN_S: Final = 10.0
"""How long an answered allocation may stay out of kubelet's sight before it counts as never made.

kubelet shows a pod as soon as it is admitted; one that ended sooner than the next question is never shown,
and its devices must not stay held for long.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One answered device id; `order` is the next question when it was answered, `since` is monotonic."""

    resource: str
    id: str
    order: int
    since: float
    seen: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known from kubelet. `order` counts questions, taken when this one was asked.

    `shown` is the part that kubelet said in answer to it. When not `final`, a device that is absent may be
    held all the same.
    """

    holds: tuple[Hold, ...] = ()
    order: int = 0
    final: bool = False
    shown: tuple[Hold, ...] = ()


Ledger = tuple[Entry, ...]


def gather(
    before: Evidence, shown: Iterable[Hold] | None, checkpoint: Iterable[Hold], *, order: int, settled: bool
) -> Evidence:
    """The evidence after asking kubelet.

    `shown` is None when kubelet does not answer. A kubelet that has just started (not `settled`) shows no
    pods until it has read them from the API server, so until then nothing that was held is free. Its
    checkpoint counts only meanwhile, because it keeps pods that ended.
    """
    if shown is not None and settled:
        return Evidence(tuple(shown), order, final=True, shown=tuple(shown))
    now = tuple(shown or ())
    return Evidence(_union(now, before.holds, checkpoint), order, final=False, shown=now)


def record(ledger: Ledger, allocation: Allocation, *, order: int, now: float) -> Ledger:
    """The ledger with the allocation, to be written before the answer. Older entries of an id are over."""
    given = set(allocation.ids)
    kept = (entry for entry in ledger if entry.resource != allocation.resource or entry.id not in given)
    return (*kept, *(Entry(allocation.resource, slot, order, now) for slot in allocation.ids))


def settle(ledger: Ledger, evidence: Evidence, *, now: float) -> Ledger:
    """The ledger without what is over: seen by kubelet and then gone, or never seen for `UNSEEN_S`.

    Evidence asked for before an allocation was answered says nothing about it.
    """
    shown = {(hold.resource, slot) for hold in evidence.shown for slot in hold.ids}
    kept: list[Entry] = []
    for entry in ledger:
        if evidence.order < entry.order:
            kept.append(entry)
        elif (entry.resource, entry.id) in shown:
            kept.append(entry if entry.seen else replace(entry, seen=True))
        elif not evidence.final or (not entry.seen and now - entry.since <= UNSEEN_S):
            kept.append(entry)
    return tuple(kept)


def holds_of(evidence: Evidence, ledger: Ledger) -> tuple[Hold, ...]:
    """Every hold: kubelet's, with the pod that has it, and those that only the ledger knows."""
    return _union(evidence.holds, (Hold(entry.resource, (entry.id,)) for entry in ledger))


def _union(*sources: Iterable[Hold]) -> tuple[Hold, ...]:
    known: set[tuple[str, str]] = set()
    result: list[Hold] = []
    for source in sources:
        for hold in source:
            fresh = tuple(slot for slot in hold.ids if (hold.resource, slot) not in known)
            known.update((hold.resource, slot) for slot in fresh)
            if fresh:
                result.append(replace(hold, ids=fresh))
    return tuple(result)
