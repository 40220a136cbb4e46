"""What claims ask, made ready for the search: requests with their class, and all devices where they want all.

Source: k8s.io/dynamic-resource-allocation/structured (checks of claims, selectors).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.kubernetes.claims.cel_errors import CelError, CompileError
from tonnage.decide.kubernetes.claims.pools import Pool, scope_takes
from tonnage.decide.kubernetes.claims.shared_capacity import consumption, fits
from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.model.kubernetes.cluster import Node
from tonnage.model.kubernetes.resource_claims import (
    ClaimDeviceId,
    DeviceClass,
    DeviceRequest,
    Mode,
    ResourceClaim,
    ResourceSlice,
    SliceDevice,
)

MOST_DEVICES: Final = 32
"""Devices that a claim can hold."""


class AllocationError(Exception):
    """Something is wrong with a claim or a class; the text is the scheduler's."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device in its slice and pool."""

    id: ClaimDeviceId
    device: SliceDevice
    slice: ResourceSlice
    pool: Pool


@dataclass(frozen=True, slots=True)
class Ask:
    """A request or one alternative of it, `needs` devices; `all_devices` are those of the mode All."""

    claim: ResourceClaim
    base: str
    alternative: str
    request: DeviceRequest
    cls: DeviceClass
    needs: int
    all_devices: tuple[Candidate, ...] = ()

    @property
    def name(self) -> str:
        """`r`, or `r/alternative`."""
        return f"{self.base}/{self.alternative}" if self.alternative else self.base

    @property
    def wants_all(self) -> bool:
        """Whether it wants every device that it selects."""
        return self.request.mode == Mode.ALL


class Requests:
    """The requests of claims on one node."""

    def __init__(self, supply: Supply, node: Node, pools: tuple[Pool, ...]) -> None:
        self._supply = supply
        self._node = node
        self._pools = pools

    def asks_of(self, claim: ResourceClaim) -> list[tuple[Ask, ...]]:
        """For each request the ways to meet it, in order of preference.

        Raises:
            AllocationError: the claim cannot be allocated anywhere.
            UnsupportedError: a selector whose result cannot be known here.
        """
        alternatives: list[tuple[Ask, ...]] = []
        least = 0
        for request in claim.requests:
            ways: list[Ask] = []
            for part in request.alternatives or (request,):
                ways.append(self._ask(claim, request, part, self._mixed_up_with(ways)))
            alternatives.append(tuple(ways))
            fewest = min(ask.needs for ask in ways)
            if self._supply.gates.minor > 36 and fewest > MOST_DEVICES - least:
                problem = f"adding {fewest} devices exceeds the claim limit of {MOST_DEVICES}"
                more = f"with {least} already accounted for"
                raise AllocationError(f"claim {claim}, request {request.name}: {problem}, {more}")
            least += fewest
        if least > MOST_DEVICES:
            problem = f"number of requested devices {least} exceeds the claim limit of {MOST_DEVICES}"
            raise AllocationError(f"claim {claim}: {problem}")
        for index, constraint in enumerate(claim.constraints):
            if not constraint.attribute or (constraint.distinct and not self._supply.gates.sharing):
                problem = "empty constraint (unsupported constraint type?)"
                raise AllocationError(f"claim {claim}, constraint #{index}: {problem}")
        return alternatives

    def _mixed_up_with(self, before: list[Ask]) -> Ask | None:
        """Before 1.36 the second alternative, if both want all, gets the devices that the first selects."""
        mixed = self._supply.gates.minor < 36 and len(before) == 1 and before[0].wants_all
        return before[0] if mixed else None

    def _ask(
        self, claim: ResourceClaim, request: DeviceRequest, part: DeviceRequest, mixed_up_with: Ask | None
    ) -> Ask:
        where = f"claim {claim}, request {part.name}"
        if part.capacity is not None and not self._supply.gates.sharing:
            if claim.uid:
                raise AllocationError(
                    f"{where}: has capacity requests, but the DRAConsumableCapacity feature is disabled"
                )
            part = replace(part, capacity=None)  # a server drops it of a claim that comes from a file
        if not part.device_class:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        cls = self._supply.classes.get(part.device_class)
        if cls is None:
            name = part.device_class
            missing = f'deviceclass.resource.k8s.io "{name}" not found'
            raise AllocationError(f"{where}: could not retrieve device class {name}: {missing}")
        alternative = part.name if request.alternatives else ""
        ask = Ask(claim, request.name, alternative, part, cls, part.count)
        if part.mode == Mode.EXACT:
            return ask
        if part.mode != Mode.ALL:
            raise AllocationError(f"{where}: unsupported count mode {part.mode}")
        every = tuple(self._all(ask, where)) if mixed_up_with is None else mixed_up_with.all_devices
        return Ask(claim, request.name, alternative, part, cls, len(every), every)

    def _all(self, ask: Ask, where: str) -> Iterator[Candidate]:
        for pool in self._pools:
            if pool.incomplete or pool.invalid:
                state = "currently being updated" if pool.incomplete else "currently invalid"
                raise AllocationError(f"{where}: asks for all devices, but resource pool {pool} is {state}")
            for candidate in candidates_of(pool):
                if not self.selectable(ask, candidate):
                    continue
                if self._supply.gates.sharing:
                    consumed = consumption(candidate.device, ask.request.capacity)
                    used = self._supply.parts if self._supply.gates.minor == 36 else {}
                    if consumed is None or not fits(candidate.device, consumed, used.get(candidate.id, {})):
                        continue
                yield candidate

    def selectable(self, ask: Ask, candidate: Candidate) -> bool:
        """Whether class, selectors and node let a device be chosen for a request.

        Raises:
            AllocationError: a selector fails on it.
            UnsupportedError: a selector whose result cannot be known here.
        """
        if candidate.device.waits_for and not self._supply.gates.conditions:
            return False
        return self.refusing(ask, candidate) is None and self.reaches(candidate)

    def reaches(self, candidate: Candidate) -> bool:
        """Whether the device itself is for the node, in a slice that says so by device."""
        return not candidate.slice.scope_by_device or scope_takes(candidate.device.scope, self._node)

    def refusing(self, ask: Ask, candidate: Candidate) -> tuple[str, str] | None:
        """The first selector that does not take a device: whose, and the expression. Raises as above."""
        of_class, of_claim = (f"class {ask.cls.name}", ask.cls), (f"claim {ask.claim}", ask.request)
        for subject, part in (of_class, of_claim):
            for index, expression in enumerate(part.selectors):
                if not self._holds(expression, candidate, f"{subject}: selector #{index}"):
                    return subject, expression
        return None

    def _holds(self, expression: str, candidate: Candidate, where: str) -> bool:
        try:
            return self._supply.selects(expression, candidate.id.driver, candidate.device)
        except CompileError as error:
            raise AllocationError(f"{where}: CEL compile error: {error}") from None
        except CelError as error:
            text = str(error)
            if self._supply.gates.names_device_in_errors:
                where = f"{where} on device {candidate.id}"
                text += _ADVICE if "no such key: " in text else ""
            raise AllocationError(f"{where}: CEL runtime error: {text}") from None


_ADVICE: Final = (
    ". consider using CEL optional chaining (.? followed by orValue())"
    " or guarding the check with has() for optional fields"
)


def candidates_of(pool: Pool) -> Iterator[Candidate]:
    """The devices of a pool in the order in which they are tried."""
    for resource_slice in pool.slices:
        for device in resource_slice.devices:
            yield Candidate(resource_slice.id_of(device), device, resource_slice, pool)
