"""Who holds which device: what kubelet says, joined with what was answered and kubelet has not shown yet.

kubelet shows an allocation only after it was answered; the ledger covers the time between, and every time in
which kubelet cannot be asked. It errs towards "held": a device is free only when kubelet said so.

A kubelet that runs forgets nothing, but one that starts without its checkpoint does: it takes containers that
run for granted, does not know their devices and would give them out again. Such a device is held by the
container that had it for as long as that runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tonnage.model.sharing import Allocation, Hold

UNSEEN_S: Final = 10.0
"""How long an answered allocation may be in none of kubelet's books before it counts as never made.

kubelet enters an allocation right after the answer reaches it, and writes its checkpoint then. Only one that
it gave up (a later container was refused) or that ended between two questions is never seen; a kubelet that
was stopped in between answers no question either.
"""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who had an id in which kubelet's books. `uid` is the pod's; what is empty is not known."""

    kubelet: str = ""
    uid: str = ""
    namespace: str = ""
    pod: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One answered device id; `order` is the next question when it was answered, `since` is monotonic.

    Once `seen` in kubelet's books it has an `owner`; `forgotten` when a later kubelet does not know of it.
    """

    resource: str
    id: str
    order: int
    since: float
    seen: bool = False
    owner: Owner = Owner()
    forgotten: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known from kubelet. `order` counts questions, taken when this one was asked.

    `shown` is the part that kubelet listed in answer to it, `reserved` the part that its checkpoint has for
    pods that are not known to be over. When not `final`, a device that is absent may be held all the same.
    `kubelet` is which one was asked, empty when that is not certain; `pods` are (namespace, name) of all that
    it listed. `read` is whether the checkpoint could be read; if not, `reserved` is what it said before.
    """

    holds: tuple[Hold, ...] = ()
    order: int = 0
    final: bool = False
    shown: tuple[Hold, ...] = ()
    reserved: tuple[Hold, ...] = ()
    kubelet: str = ""
    pods: frozenset[tuple[str, str]] = frozenset()
    read: bool = True


@dataclass(frozen=True, slots=True)
class Claim:
    """A living pod that asks for `count` of a resource; None: kubelet's list cannot show all of it."""

    namespace: str
    pod: str
    resource: str
    count: int | None


@dataclass(frozen=True, slots=True)
class Census:
    """The claims of all living pods of the node, looked up after the question `order` was asked."""

    order: int = 0
    claims: tuple[Claim, ...] = ()


Ledger = tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Living:
    """The node's pods that are not over: (namespace, name) by uid. `idle` are containers of them that ran and
    do not run now: (uid, name).
    """

    names: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    idle: frozenset[tuple[str, str]] = frozenset()


def gather(
    before: Evidence,
    shown: Iterable[Hold] | None,
    reserved: Iterable[Hold] | None,
    *,
    order: int,
    settled: bool,
) -> Evidence:
    """The evidence after asking kubelet.

    `shown` is None when kubelet does not answer. A kubelet that has just started (not `settled`) shows no
    pods until it has read them from the API server, so until then nothing that was held is free.
    `reserved` is what the checkpoint has for pods that may live: kubelet's list leaves out the devices of
    ordinary init containers. It is None when the checkpoint cannot be read; then nothing is free either.
    """
    kept = before.reserved if reserved is None else tuple(reserved)
    now = tuple(shown or ())
    if shown is not None and reserved is not None and settled:
        return Evidence(_union(now, kept), order, True, now, kept)
    return Evidence(_union(now, before.holds, kept), order, False, now, kept, read=reserved is not None)


def record(ledger: Ledger, allocation: Allocation, *, order: int, now: float) -> Ledger:
    """The ledger with the allocation, to be written before the answer. Older entries of an id are over."""
    given = set(allocation.ids)
    kept = (entry for entry in ledger if entry.resource != allocation.resource or entry.id not in given)
    return (*kept, *(Entry(allocation.resource, slot, order, now) for slot in allocation.ids))


def settle(
    ledger: Ledger,
    evidence: Evidence,
    *,
    now: float,
    census: Census = Census(),
    living: Living | None = None,
) -> Ledger:
    """The ledger without what is over: once in kubelet's books and gone; or never there, for `UNSEEN_S` or
    while no living pod can be the one that it was for.

    Evidence asked for before an allocation was answered says nothing about it.
    """
    uids = {name: uid for uid, name in living.names.items()} if living else {}
    earlier = _by_slot(evidence.reserved)
    books = {**(earlier if evidence.read else {}), **_by_slot(evidence.shown)}
    kept: list[Entry] = []
    for entry in ledger:
        slot = entry.resource, entry.id
        if evidence.order < entry.order:
            kept.append(entry)
        elif slot in books:
            owner = _owner(entry, books[slot], evidence.kubelet or entry.owner.kubelet, uids)
            kept.append(replace(entry, seen=True, owner=owner, forgotten=False))
        elif _forgotten(entry, evidence, living):
            kept.append(replace(entry, forgotten=True))
        elif slot in earlier:
            owner = _owner(entry, earlier[slot], entry.owner.kubelet, uids)
            kept.append(replace(entry, seen=True, owner=owner, forgotten=False))
        elif not evidence.final or not (entry.seen or _lost(entry, evidence, census, now)):
            kept.append(replace(entry, forgotten=False))
    return tuple(kept)


def _by_slot(holds: Iterable[Hold]) -> dict[tuple[str, str], Hold]:
    return {(hold.resource, slot): hold for hold in holds for slot in hold.ids}


def holds_of(evidence: Evidence, ledger: Ledger) -> tuple[Hold, ...]:
    """Every hold: kubelet's, with the pod that has it, and those that only the ledger knows."""
    known = _union((_remembered(entry) for entry in ledger if entry.forgotten), evidence.holds)
    slots = {(hold.resource, slot) for hold in known for slot in hold.ids}
    noted = dict.fromkeys((entry.resource, entry.id) for entry in ledger)
    return (*known, *(Hold(name, (slot,)) for name, slot in noted if (name, slot) not in slots))


def unconfirmed(ledger: Ledger, kubelet: str, living: Living | None = None) -> frozenset[tuple[str, str]]:
    """(resource, id) of what an earlier kubelet had in its books, and this one not, or not yet.

    Without what is known to be over.
    """
    return frozenset(
        (entry.resource, entry.id)
        for entry in ledger
        if entry.seen and entry.owner.kubelet not in ("", kubelet) and not _is_over(entry.owner, living)
    )


def _is_over(owner: Owner, living: Living | None) -> bool:
    """Whether it is known that the container does not run any more."""
    if living is None or not owner.uid:
        return False
    return owner.uid not in living.names or (owner.uid, owner.container) in living.idle


def _owner(entry: Entry, hold: Hold, kubelet: str, uids: Mapping[tuple[str, str], str]) -> Owner:
    """Whom that kubelet's books name. A pod that nobody could name yet stands there by its uid."""
    if not hold.namespace:
        return Owner(kubelet, uid=hold.pod, container=hold.container)
    same = (entry.owner.namespace, entry.owner.pod) == (hold.namespace, hold.pod)
    uid = uids.get((hold.namespace, hold.pod), entry.owner.uid if same else "")
    return Owner(kubelet, uid, hold.namespace, hold.pod, hold.container)


def _remembered(entry: Entry) -> Hold:
    owner = entry.owner
    pod = owner.pod or owner.uid
    return Hold(entry.resource, (entry.id,), owner.namespace, pod, owner.container, forgotten=True)


def _forgotten(entry: Entry, evidence: Evidence, living: Living | None) -> bool:
    """Whether an entry that is not in kubelet's books is missing there because kubelet lost them.

    It is when an earlier kubelet had it and its container runs: a kubelet asks anew for one that it starts
    again, and then the books have something else for it. Whether its pod lives is the API server's word;
    without it, that of a kubelet which has read its pods.
    """
    owner = entry.owner
    if not evidence.kubelet:
        return entry.forgotten
    if owner.kubelet in ("", evidence.kubelet):
        return False
    if _is_over(owner, living):
        return False
    if not evidence.final:
        return True
    known = living.names.get(owner.uid) if living else None
    name = known or (owner.namespace, owner.pod)
    given = any(
        (hold.namespace, hold.pod) == name and hold.container == owner.container
        for hold in (*evidence.shown, *evidence.reserved)
        if hold.resource == entry.resource
    )
    return not given and (known is not None or name in evidence.pods)


def _lost(entry: Entry, evidence: Evidence, census: Census, now: float) -> bool:
    """Whether an answer that is in none of kubelet's books is too old to get there, or nobody's.

    It is nobody's when every living pod that asks for the resource has been given all of it otherwise.
    """
    if now - entry.since > UNSEEN_S:
        return True
    if census.order < entry.order:
        return False
    given = Counter(
        (hold.namespace, hold.pod)
        for hold in evidence.shown
        for _ in hold.ids
        if hold.resource == entry.resource
    )
    return all(
        claim.count is not None and given[claim.namespace, claim.pod] >= claim.count
        for claim in census.claims
        if claim.resource == entry.resource
    )


def _union(*sources: Iterable[Hold]) -> tuple[Hold, ...]:
    known: set[tuple[str, str]] = set()
    result: list[Hold] = []
    for source in sources:
        for hold in source:
            fresh = tuple([slot for slot in hold.ids if (hold.resource, slot) not in known])
            known.update([(hold.resource, slot) for slot in fresh])
            if fresh:
                result.append(hold if len(fresh) == len(hold.ids) else replace(hold, ids=fresh))
    return tuple(result)
