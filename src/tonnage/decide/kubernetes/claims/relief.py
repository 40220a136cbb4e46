"""What would have a node meet claims that it cannot: each change is tried on the allocator first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from tonnage.decide.kubernetes.claims.allocator import ClaimDevices, allocate
from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.model.kubernetes.cluster import Node
from tonnage.model.kubernetes.resource_claims import DeviceRequest, Mode, ResourceClaim
from tonnage.model.kubernetes.selectors import Toleration

_MOST_TRIALS: Final = 24
_MOST_STEPS: Final = 2_000
"""Of one trial: what needs more is not named, since a search without an answer is long."""
_ALL_TAINTS: Final = (Toleration(operator="Exists"),)


class ReliefKind(StrEnum):
    """What a request gives up."""

    SELECTOR = "selector"
    COUNT = "count"
    CAPACITY = "capacity"
    TAINT = "taint"


@dataclass(frozen=True, slots=True)
class Relief:
    """One change that is enough. `detail` is the selector, or the capacities; `count` of `of` devices fit."""

    kind: ReliefKind
    claim: ResourceClaim
    request: str = ""
    detail: str = ""
    count: int = 0
    of: int = 0


def reliefs(claims: Sequence[ResourceClaim], node: Node, supply: Supply) -> tuple[Relief, ...]:
    """Every single change of a request that is enough on the node."""
    return tuple(_Trials(claims, node, supply).enough())


class _Trials:
    """Trials on one node, of which there are not too many."""

    def __init__(self, claims: Sequence[ResourceClaim], node: Node, supply: Supply) -> None:
        self._claims = tuple(claims)
        self._node = node
        self._supply = supply
        self._left = _MOST_TRIALS

    def enough(self) -> Iterator[Relief]:
        for place, claim in enumerate(self._claims):
            for number, request in enumerate(claim.requests):
                for part in request.alternatives or (request,):
                    yield from self._of_request(place, number, part)

    def _of_request(self, place: int, number: int, request: DeviceRequest) -> Iterator[Relief]:
        """Changes of a request, or of one alternative of it."""
        claim = self._claims[place]
        whole = claim.requests[number]
        name = f"{whole.name}/{request.name}" if whole.alternatives else whole.name

        def suffices(changed: DeviceRequest) -> bool:
            if whole.alternatives:
                parts = tuple(changed if part is request else part for part in whole.alternatives)
                changed = replace(whole, alternatives=parts)
            requests = (*claim.requests[:number], changed, *claim.requests[number + 1 :])
            return self._fits(place, replace(claim, requests=requests))

        for index, expression in enumerate(request.selectors):
            others = (*request.selectors[:index], *request.selectors[index + 1 :])
            if suffices(replace(request, selectors=others)):
                yield Relief(ReliefKind.SELECTOR, claim, name, expression)
        if request.capacity and suffices(replace(request, capacity=None)):
            yield Relief(ReliefKind.CAPACITY, claim, name, ", ".join(sorted(request.capacity)))
        if self._supply.gates.taints and suffices(replace(request, tolerations=_ALL_TAINTS)):
            yield Relief(ReliefKind.TAINT, claim, name)
        if request.mode == Mode.EXACT and request.count > 1:
            count = _most(request.count - 1, lambda count: suffices(replace(request, count=count)))
            if count:
                yield Relief(ReliefKind.COUNT, claim, name, count=count, of=request.count)

    def _fits(self, place: int, claim: ResourceClaim) -> bool:
        self._left -= 1
        if self._left < 0:
            return False
        claims = (*self._claims[:place], claim, *self._claims[place + 1 :])
        return isinstance(allocate(claims, self._node, self._supply, most_steps=_MOST_STEPS), ClaimDevices)


def _most(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `limit` that fits, where what is less fits too; 0: none.

    >>> _most(7, lambda count: count < 4), _most(1, lambda count: False)
    (3, 0)
    """
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
