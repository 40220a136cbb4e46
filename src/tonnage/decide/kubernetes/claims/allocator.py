"""structured.Allocator: depth-first search for devices that meet claims; the first solution counts.

Claims in the pod's order, requests in the claim's, devices in the order of pools and slices. A step is one
choice; a search that needs too many is given up, as the scheduler gives up after ten seconds. A state from
which there was no way on is not tried again, which changes no answer.

Source: k8s.io/dynamic-resource-allocation/structured (allocators of 1.34.4, 1.35.8, 1.36.3, 1.37.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, TypeAlias

from tonnage.decide.kubernetes.claims.cel_errors import CelUnsupportedError
from tonnage.decide.kubernetes.claims.constraints import ConstraintState
from tonnage.decide.kubernetes.claims.counters import Left, left_in, suffices, take
from tonnage.decide.kubernetes.claims.device_requests import (
    MOST_DEVICES,
    AllocationError,
    Ask,
    Candidate,
    Requests,
    candidates_of,
)
from tonnage.decide.kubernetes.claims.pools import Pool, pools_for
from tonnage.decide.kubernetes.claims.shared_capacity import consumption, fits
from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.decide.kubernetes.matching import untolerated
from tonnage.model.kubernetes.cluster import Node
from tonnage.model.kubernetes.resource_claims import ClaimDeviceId, Quantities, ResourceClaim

MOST_STEPS: Final = 100_000
INVALID_POOLS: Final = "invalid resource pools were encountered"
BLOCKING: Final = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Picked:
    """A device chosen for a request, `r` or `r/alternative`."""

    request: str
    id: ClaimDeviceId
    admin: bool = False
    consumed: Quantities | None = None
    """What it takes of a device of which others may have parts, too; None: it has the device alone."""


@dataclass(frozen=True, slots=True)
class ClaimDevices:
    """What a node would give: devices by claim."""

    devices: tuple[tuple[Picked, ...], ...]


@dataclass(frozen=True, slots=True)
class AllocatorError:
    """The allocator's error, in Kubernetes' words: it fails the pod on every node."""

    upstream_message: str


@dataclass(frozen=True, slots=True)
class NodeCannotAllocate:
    """The node cannot meet all claims; Kubernetes' words, where it has others than for most nodes."""

    upstream_message: str = ""


@dataclass(frozen=True, slots=True)
class AllocationUnknown:
    """Whether the node can meet the claims is not known; `cause` says why."""

    cause: str


AllocationAnswer: TypeAlias = ClaimDevices | AllocatorError | NodeCannotAllocate | AllocationUnknown


def allocate(
    claims: Sequence[ResourceClaim], node: Node, supply: Supply, *, most_steps: int = MOST_STEPS
) -> AllocationAnswer:
    """The devices that the claims would be given on a node."""
    pools = pools_for(node, supply)
    try:
        search = _Search(claims, node, supply, pools, most_steps)
        if search.solve():
            return ClaimDevices(tuple(tuple(devices) for devices in search.picked))
    except AllocationError as error:
        return AllocatorError(str(error))
    except CelUnsupportedError as error:
        return AllocationUnknown(f"a CEL selector uses {error}")
    except _TooManyStepsError:
        return AllocationUnknown(f"which devices fit: {most_steps} combinations were not enough")
    except RecursionError:
        return AllocationUnknown("which devices fit: the claims ask too many requests")
    if any(pool.invalid for pool in pools):
        return NodeCannotAllocate(INVALID_POOLS)
    return NodeCannotAllocate()


class Allocator:
    """Asks `allocate`, and keeps the answers of a node as long as claims and node stay the same."""

    def __init__(self, supply: Supply) -> None:
        self.supply = supply
        self._answers: dict[str, tuple[tuple[ResourceClaim, ...], Node, AllocationAnswer]] = {}

    def on(self, node: Node, claims: tuple[ResourceClaim, ...]) -> AllocationAnswer:
        """The devices that claims without any would be given on a node."""
        cached = self._answers.get(node.name)
        if cached is not None and cached[1].labels is node.labels and _alike(cached[0], claims):
            return cached[2]
        answer = allocate(claims, node, self.supply)
        self._answers[node.name] = claims, node, answer
        return answer

    def devices_on(self, node: Node, claims: tuple[ResourceClaim, ...]) -> tuple[tuple[Picked, ...], ...]:
        """The same by claim; nothing where the node gives none."""
        answer = self.on(node, claims)
        return answer.devices if isinstance(answer, ClaimDevices) else ()

    def put(self, claims: Iterable[ResourceClaim]) -> None:
        """As `Supply.put`."""
        self.supply.put(claims)
        self._answers.clear()


def _alike(claims: Sequence[ResourceClaim], other: Sequence[ResourceClaim]) -> bool:
    return len(claims) == len(other) and all(a is b for a, b in zip(claims, other, strict=True))


class _TooManyStepsError(Exception):
    """The search is given up."""


class _TooManyDevicesError(Exception):
    """The claim would hold more devices than it can, whatever is chosen for the request at hand."""


@dataclass(slots=True)
class _Undo:
    """What a chosen device changed."""

    counted: bool = False
    constrained: list[ConstraintState] = field(default_factory=list)
    marked: bool = False
    shared: dict[str, Fraction] | None = None
    picked: bool = False


class _Search:
    """One search. `picked` has a list per claim."""

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        node: Node,
        supply: Supply,
        pools: tuple[Pool, ...],
        most_steps: int,
    ) -> None:
        self._supply = supply
        self._most_steps = most_steps
        self._gates = supply.gates
        self._requests = Requests(supply, node, pools)
        self._asks = [self._requests.asks_of(claim) for claim in claims]
        self._usable = [
            candidate for pool in pools if self._may_use(pool) for candidate in candidates_of(pool)
        ]
        forgets = self._gates.minor == 36
        self._constraints = [[ConstraintState(c, forgets) for c in claim.constraints] for claim in claims]
        self.picked: list[list[Picked]] = [[] for _ in claims]
        self._in_use: dict[ClaimDeviceId, list[int]] = {}
        self._shared: dict[ClaimDeviceId, list[dict[str, Fraction]]] = {}
        self._left: dict[str, Left] = {}
        self._selectable: dict[tuple[int, ClaimDeviceId], bool] = {}
        self._hopeless: set[tuple[object, ...]] = set()
        self._steps = 0

    def solve(self) -> bool:
        """Whether there is a solution; it is in `picked` then."""
        try:
            return self._claim(0)
        except _TooManyDevicesError:
            return False

    def _may_use(self, pool: Pool) -> bool:
        if self._gates.takes_incomplete_pools:
            if pool.invalid:
                raise AllocationError(f"pool {pool.name} is invalid: {pool.invalid}")
            return True
        return pool.usable

    def _claim(self, claim: int) -> bool:
        return claim >= len(self._asks) or self._request(claim, 0)

    def _request(self, claim: int, request: int) -> bool:
        if request >= len(self._asks[claim]):
            try:
                return self._claim(claim + 1)
            except _TooManyDevicesError:
                return False
        state = (claim, request, *self._state(claim))
        if state in self._hopeless:
            return False
        solved = self._any_way(claim, request, self._asks[claim][request])
        if not solved:
            self._hopeless.add(state)
        return solved

    def _state(self, claim: int) -> tuple[object, ...]:
        """All that the rest of the search depends on: what is taken, however it came to be."""
        occupied = frozenset(
            (identity, *sorted(holders)) for identity, holders in self._in_use.items() if holders
        )
        shared = frozenset(
            (identity, *sorted(tuple(sorted(part.items())) for part in parts))
            for identity, parts in self._shared.items()
            if parts
        )
        constraint_values = tuple(tuple(standing.values) for standing in self._constraints[claim])
        return occupied, shared, constraint_values, len(self.picked[claim])

    def _any_way(self, claim: int, request: int, ways: tuple[Ask, ...]) -> bool:
        if len(ways) == 1 and not ways[0].alternative:
            return self._device(claim, request, ways[0], 0, 0)
        too_many = 0
        for ask in ways:
            try:
                if self._device(claim, request, ask, 0, 0):
                    return True
            except _TooManyDevicesError:
                too_many += 1
        if too_many == len(ways):
            raise _TooManyDevicesError
        return False

    def _device(self, claim: int, request: int, ask: Ask, index: int, start: int) -> bool:
        """Choose the device number `index` of a request, no earlier one than `start`, and all that follow."""
        if ask.wants_all and not ask.all_devices:
            return False
        if index >= ask.needs:
            return self._request(claim, request + 1)
        if len(self.picked[claim]) + ask.needs - index > MOST_DEVICES:
            raise _TooManyDevicesError
        for position, candidate in self._candidates(claim, ask, index, start):
            self._steps += 1
            if self._steps > self._most_steps:
                raise _TooManyStepsError
            undo = _Undo()
            if not self._choose(claim, ask, candidate, undo):
                self._undo(claim, candidate, undo)
                continue
            try:
                if self._device(claim, request, self._next(claim, request, ask), index + 1, position + 1):
                    return True
            except _TooManyDevicesError:
                self._undo(claim, candidate, undo)
                raise
            self._undo(claim, candidate, undo)
        return False

    def _next(self, claim: int, request: int, ask: Ask) -> Ask:
        """Before 1.36 an alternative that wants all goes on as the first alternative after one device."""
        return self._asks[claim][request][0] if ask.wants_all and self._gates.minor < 36 else ask

    def _candidates(self, claim: int, ask: Ask, index: int, start: int) -> Iterator[tuple[int, Candidate]]:
        if ask.wants_all:
            yield index, ask.all_devices[index]
            return
        for position in range(start, len(self._usable)):
            candidate = self._usable[position]
            if not self._busy(claim, ask, candidate) and self._selects(ask, candidate):
                yield position, candidate

    def _selects(self, ask: Ask, candidate: Candidate) -> bool:
        key = (id(ask), candidate.id)
        selectable = self._selectable.get(key)
        if selectable is None:
            selectable = self._selectable[key] = self._requests.selectable(ask, candidate)
        return selectable

    def _busy(self, claim: int, ask: Ask, candidate: Candidate) -> bool:
        """Whether a device is somebody's: an administrator minds only who else in the claim has it."""
        takers = self._in_use.get(candidate.id, ())
        if ask.request.admin:
            shareable = candidate.device.shareable and self._gates.sharing
            return not shareable and claim in takers
        return candidate.id in self._supply.held or bool(takers)

    def _choose(self, claim: int, ask: Ask, candidate: Candidate, undo: _Undo) -> bool:
        """Take a device for a request, noting in `undo` what changed, also when it comes to nothing."""
        device = candidate.device
        if self._busy(claim, ask, candidate) or not self._counts(candidate, undo):
            return False
        if self._gates.taints and untolerated(device.taints, ask.request.tolerations, BLOCKING):
            return False
        for standing in self._constraints[claim]:
            if not standing.concerns(ask.base, ask.alternative):
                continue
            if not standing.add(ask.base, candidate.id.driver, device):
                if ask.wants_all:
                    raise AllocationError(
                        f"claim {ask.claim}, request {ask.request.name}: cannot add device {candidate.id} "
                        "because a claim constraint would not be satisfied"
                    )
                return False
            undo.constrained.append(standing)
        if not self._shares(ask, candidate, undo):
            return False
        if undo.shared is None:
            self._in_use.setdefault(candidate.id, []).append(claim)
            undo.marked = True
        self.picked[claim].append(Picked(ask.name, candidate.id, ask.request.admin, undo.shared))
        undo.picked = True
        return True

    def _counts(self, candidate: Candidate, undo: _Undo) -> bool:
        """Whether the pool's shared counters allow the device."""
        device = candidate.device
        if not device.consumes:
            return True
        if not self._gates.partitions:
            return False
        in_use = candidate.id in self._supply.parts or self._shared.get(candidate.id)
        if device.shareable and self._gates.sharing and in_use:
            return True
        key = candidate.pool.name if self._gates.minor == 36 else str(candidate.pool)
        if key not in self._left:
            self._left[key] = left_in(candidate.pool, self._supply)
        take(self._left[key], device)
        undo.counted = True
        return suffices(self._left[key])

    def _shares(self, ask: Ask, candidate: Candidate, undo: _Undo) -> bool:
        """Whether the device has as much of every capacity as the request takes."""
        if not self._gates.sharing:
            return True
        device = candidate.device
        consumed = consumption(device, ask.request.capacity)
        if consumed is None:
            return False
        others = (self._supply.parts.get(candidate.id, {}), *self._shared.get(candidate.id, ()))
        if not fits(device, consumed, *others):
            return False
        if device.shareable:
            self._shared.setdefault(candidate.id, []).append(consumed)
            undo.shared = consumed
        return True

    def _undo(self, claim: int, candidate: Candidate, undo: _Undo) -> None:
        if undo.picked:
            self.picked[claim].pop()
        if undo.shared is not None:
            self._shared[candidate.id].pop()
        if undo.marked:
            self._in_use[candidate.id].remove(claim)
        for standing in undo.constrained:
            standing.remove()
        if undo.counted:
            key = candidate.pool.name if self._gates.minor == 36 else str(candidate.pool)
            take(self._left[key], candidate.device, -1)
