"""Who holds which device: what kubelet says, joined with what was answered and kubelet has not shown yet.

kubelet shows an allocation only after it was answered; the ledger covers the time between, and every time in
which kubelet cannot be asked. It errs towards "held": a device is free only when kubelet said so.

A kubelet that runs forgets nothing, but one that starts without its checkpoint does: it takes containers that
run for granted, does not know their devices and would give them out again. Such a device is held by the
container that had it for as long as that runs. Where kubelet ended before it showed whose an answered device
is, the device is held until no living pod can be the one that has it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tonnage.model.devices.sharing import Allocation, Hold, HoldKind

UNSEEN_S: Final = 10.0
"""How long an answered allocation may be in none of kubelet's books before it counts as never made.

kubelet enters an allocation right after the answer reaches it, and writes its checkpoint then. Only one that
it gave up (a later container was refused) or that ended between two questions is never seen; a kubelet that
was stopped in between answers no question either.
"""


@dataclass(frozen=True, slots=True)
class IdOwner:
    """Who had an id in which kubelet's books, or only which kubelet got it. `uid` is the pod's.

    What is empty is not known. A container takes what ordinary init containers before it had, so one id may
    be in the books of several `containers`, sorted.
    """

    kubelet: str = ""
    uid: str = ""
    namespace: str = ""
    pod: str = ""
    containers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One answered device id; `order` is the next question when it was answered, `since` is monotonic.

    Once `listed` in kubelet's books it has an `owner` with a pod; `forgotten` when a later kubelet does not
    know of it, or may not.
    """

    resource: str
    id: str
    order: int
    since: float
    listed: bool = False
    owner: IdOwner = IdOwner()
    forgotten: bool = False
    kind: HoldKind = HoldKind.DEVICE_PLUGIN

    @property
    def never_shown(self) -> bool:
        """Whether it should be in kubelet's books, and never was."""
        return self.kind is HoldKind.DEVICE_PLUGIN and not self.listed

    @property
    def is_open(self) -> bool:
        """Whether kubelet's word on the answer is still awaited."""
        return self.never_shown and not self.forgotten


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
    claims: tuple[Hold, ...] = ()
    """What kubelet lists of containers by claims, the names of devices in the place of ids."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A container of a living pod that asks for `count` of a resource, and runs or is still to run."""

    namespace: str
    pod: str
    container: str
    resource: str
    count: int


@dataclass(frozen=True, slots=True)
class Census:
    """The claims of all living pods of the node, looked up after the question `order` was asked."""

    order: int = -1
    claims: tuple[Claim, ...] = ()


Ledger = tuple[LedgerEntry, ...]
_Lacking = Counter[tuple[str, str]]
"""How many of a resource pods lack, by (namespace, name)."""


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
    reserved_now = before.reserved if reserved is None else tuple(reserved)
    now = tuple(shown or ())
    if shown is not None and reserved is not None and settled:
        return Evidence(_union(now, reserved_now), order, True, now, reserved_now)
    return Evidence(
        _union(now, before.holds, reserved_now), order, False, now, reserved_now, read=reserved is not None
    )


def entries_of(
    allocation: Allocation, *, order: int, now: float, kubelet: str = ""
) -> tuple[LedgerEntry, ...]:
    """The entries of an allocation, to be written before the answer. Older ones of these ids are over.

    `kubelet` is the one that asks, empty where nobody could say later which pods live.
    """
    owner = IdOwner(kubelet)
    return tuple(LedgerEntry(allocation.resource, slot, order, now, owner=owner) for slot in allocation.ids)


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

    Evidence asked for before an allocation was answered says nothing about it, and none says anything about
    an entry of another kind than a device plugin's: kubelet's books have only those.
    """
    others = tuple(entry for entry in ledger if entry.kind is not HoldKind.DEVICE_PLUGIN)
    if others:
        own = tuple(entry for entry in ledger if entry.kind is HoldKind.DEVICE_PLUGIN)
        return (*settle(own, evidence, now=now, census=census, living=living), *others)
    uids = {name: uid for uid, name in living.names.items()} if living else {}
    earlier = _by_slot(evidence.reserved)
    books = {**(earlier if evidence.read else {}), **_by_slot(evidence.shown)}
    entries: list[LedgerEntry] = []
    for entry in ledger:
        slot = entry.resource, entry.id
        if evidence.order < entry.order:
            entries.append(entry)
        elif slot in books:  # before the doubts: what kubelet has in its books it has not forgotten
            owner = _owner(entry, books[slot], evidence.kubelet or entry.owner.kubelet, uids)
            entries.append(replace(entry, listed=True, owner=owner, forgotten=False))
        elif _forgotten(entry, evidence, living):
            entries.append(replace(entry, forgotten=True))
        elif slot in earlier:
            owner = _owner(entry, earlier[slot], entry.owner.kubelet, uids)
            entries.append(replace(entry, listed=True, owner=owner, forgotten=False))
        elif not (entry.listed and evidence.final):
            entries.append(replace(entry, forgotten=False) if entry.listed else entry)
    forgotten = tuple(entry for entry in entries if entry.listed and entry.forgotten)
    lacking = {entry.resource: _Lacking() for entry in entries if not entry.listed}
    lacking = {name: _lacking(name, evidence, census, forgotten) for name in lacking}
    entries = [
        entry
        for entry in entries
        if entry.listed
        or not evidence.final
        or not _lost(entry, evidence, census, lacking[entry.resource], now)
    ]
    unseen = Counter(entry.resource for entry in entries if not entry.listed)
    return tuple(
        entry
        if entry.listed or not evidence.kubelet or evidence.order < entry.order
        else _doubted(entry, evidence, bool(forgotten), lacking[entry.resource], unseen[entry.resource])
        for entry in entries
    )


def _doubted(
    entry: LedgerEntry, evidence: Evidence, lost: bool, lacking: _Lacking, unseen: int
) -> LedgerEntry:
    """An answer to an earlier kubelet may be in use and unknown to this one, if this one `lost` its books.

    It is named after the pod that has it where that can be only one.
    """
    if not _is_of_earlier(entry, evidence.kubelet):
        return replace(entry, forgotten=False)
    only = next(iter(lacking)) if len(lacking) == 1 and lacking.total() == unseen else ("", "")
    owner = IdOwner(entry.owner.kubelet, namespace=only[0], pod=only[1])
    return replace(
        entry, forgotten=entry.forgotten or lost, owner=owner
    )  # who tells of a loss may end before


def _lacking(resource: str, evidence: Evidence, census: Census, forgotten: Ledger) -> _Lacking:
    """How many of a resource the containers of each living pod ask for and are not known to have."""
    assigned: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    for hold in (*evidence.shown, *evidence.reserved):
        if hold.resource == resource:
            assigned[hold.namespace, hold.pod, hold.container].update(hold.ids)
    for entry in forgotten:
        for container in entry.owner.containers if entry.resource == resource else ():
            assigned[entry.owner.namespace, entry.owner.pod, container].add(entry.id)
    lacking = _Lacking()
    for claim in census.claims:
        has = len(assigned[claim.namespace, claim.pod, claim.container])
        if claim.resource == resource and has < claim.count:
            lacking[claim.namespace, claim.pod] += claim.count - has
    return lacking


def _is_of_earlier(entry: LedgerEntry, kubelet: str) -> bool:
    return entry.owner.kubelet not in ("", kubelet)


def _by_slot(holds: Iterable[Hold]) -> dict[tuple[str, str], tuple[Hold, tuple[str, ...]]]:
    """Whose each id is, with all containers of that pod which have it."""
    books: dict[tuple[str, str], tuple[Hold, tuple[str, ...]]] = {}
    for hold in holds:
        for slot in hold.ids:
            key = hold.resource, slot
            containers = {hold.container}
            if (before := books.get(key)) and (before[0].namespace, before[0].pod) == (
                hold.namespace,
                hold.pod,
            ):
                containers.update(before[1])
            books[key] = hold, tuple(sorted(containers))
    return books


def holds_of(evidence: Evidence, ledger: Ledger) -> tuple[Hold, ...]:
    """Every hold: kubelet's, with the pod that has it, and those that only the ledger knows."""
    proven = _union((_remembered(entry) for entry in ledger if entry.forgotten), evidence.holds)
    slots = {(hold.resource, slot) for hold in proven for slot in hold.ids}
    noted = {(entry.resource, entry.id): entry for entry in ledger}
    return (*proven, *(noted_hold(entry) for slot, entry in noted.items() if slot not in slots))


def noted_hold(entry: LedgerEntry) -> Hold:
    """The hold of an answer whose pod kubelet has not said; of other kinds it is known when it is given."""
    if entry.kind is HoldKind.DEVICE_PLUGIN:
        return Hold(entry.resource, (entry.id,))
    return replace(_remembered(entry), forgotten=False)


def unconfirmed(
    ledger: Iterable[LedgerEntry], kubelet: str, living: Living | None = None
) -> frozenset[tuple[str, str]]:
    """(resource, id) of what an earlier kubelet got, and this one has not in its books, or not yet.

    Without what is known to be over.
    """
    return frozenset(
        (entry.resource, entry.id)
        for entry in ledger
        if _is_of_earlier(entry, kubelet) and not _is_over(entry.owner, living)
    )


def _is_over(owner: IdOwner, living: Living | None) -> bool:
    """Whether it is known that no container which had it runs any more."""
    if living is None or not owner.uid:
        return False
    return owner.uid not in living.names or _all(owner, lambda name: (owner.uid, name) in living.idle)


def _all(owner: IdOwner, is_so: Callable[[str], bool]) -> bool:
    """Whether it is so of all its containers, which must be known."""
    return bool(owner.containers) and all(is_so(name) for name in owner.containers)


def _owner(
    entry: LedgerEntry, book: tuple[Hold, tuple[str, ...]], kubelet: str, uids: Mapping[tuple[str, str], str]
) -> IdOwner:
    """Whom that kubelet's books name. A pod that nobody could name yet stands there by its uid."""
    hold, containers = book
    if not hold.namespace:
        return IdOwner(kubelet, uid=hold.pod, containers=containers)
    same = (entry.owner.namespace, entry.owner.pod) == (hold.namespace, hold.pod)
    uid = uids.get((hold.namespace, hold.pod), entry.owner.uid if same else "")
    return IdOwner(kubelet, uid, hold.namespace, hold.pod, containers)


def _remembered(entry: LedgerEntry) -> Hold:
    owner = entry.owner
    container = owner.containers[0] if len(owner.containers) == 1 else ""
    return Hold(
        *(entry.resource, (entry.id,), owner.namespace, owner.pod or owner.uid, container),
        forgotten=True,
        kind=entry.kind,
    )


def _forgotten(entry: LedgerEntry, evidence: Evidence, living: Living | None) -> bool:
    """Whether an entry that is not in kubelet's books is missing there because kubelet lost them.

    It is when an earlier kubelet had it and a container of it runs: a kubelet asks anew for one that it
    starts again, and then the books have something else for it. It does so too for ordinary init containers,
    which are over, while the container that took their devices runs. Whether its pod lives is the API
    server's word; without it, that of a kubelet which has read its pods.
    """
    owner = entry.owner
    if not entry.listed or not evidence.kubelet:
        return entry.forgotten
    if not _is_of_earlier(entry, evidence.kubelet):
        return False
    if _is_over(owner, living):
        return False
    if not evidence.final:
        return True
    current_name = living.names.get(owner.uid) if living else None
    name = current_name or (owner.namespace, owner.pod)
    assigned = {
        hold.container
        for hold in (*evidence.shown, *evidence.reserved)
        if hold.resource == entry.resource and (hold.namespace, hold.pod) == name
    }
    idle = living.idle if living else frozenset()
    if _all(owner, lambda container: container in assigned or (owner.uid, container) in idle):
        return False
    return current_name is not None or name in evidence.pods


def _lost(entry: LedgerEntry, evidence: Evidence, census: Census, lacking: _Lacking, now: float) -> bool:
    """Whether an answer that is in none of kubelet's books is too old to get there, or nobody's.

    It is nobody's when every container that asks for the resource has been given all of it otherwise. An
    answer to an earlier kubelet, which may have started the container and told nobody, is never too old.
    """
    earlier = bool(evidence.kubelet) and _is_of_earlier(entry, evidence.kubelet)
    if now - entry.since > UNSEEN_S and not earlier:
        return True
    return census.order >= entry.order and not lacking


def _union(*sources: Iterable[Hold]) -> tuple[Hold, ...]:
    listed: set[tuple[str, str]] = set()
    holds: list[Hold] = []
    for source in sources:
        for hold in source:
            fresh = tuple([slot for slot in hold.ids if (hold.resource, slot) not in listed])
            listed.update([(hold.resource, slot) for slot in fresh])
            if fresh:
                holds.append(hold if len(fresh) == len(hold.ids) else replace(hold, ids=fresh))
    return tuple(holds)
