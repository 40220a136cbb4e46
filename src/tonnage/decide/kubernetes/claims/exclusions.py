"""Why a node cannot meet claims: what excludes each of its devices from each request, and what would help.

The scheduler says no more than that it cannot allocate; this looks at every device on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tonnage.decide.kubernetes.claims.alike import slices_in_order
from tonnage.decide.kubernetes.claims.allocator import BLOCKING, ClaimDevices, allocate
from tonnage.decide.kubernetes.claims.cel_errors import CelUnsupportedError
from tonnage.decide.kubernetes.claims.constraints import attribute_of
from tonnage.decide.kubernetes.claims.counters import left_in, suffices, take
from tonnage.decide.kubernetes.claims.device_requests import (
    AllocationError,
    Ask,
    Candidate,
    Requests,
    candidates_of,
)
from tonnage.decide.kubernetes.claims.pools import Pool, pools_for
from tonnage.decide.kubernetes.claims.relief import Relief, reliefs
from tonnage.decide.kubernetes.claims.shared_capacity import consumption, fits
from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.decide.kubernetes.matching import untolerated
from tonnage.model.devices.claims import UNHEALTHY
from tonnage.model.kubernetes.cluster import Node
from tonnage.model.kubernetes.resource_claims import ClaimDeviceId, Constraint, DeviceRequest, ResourceClaim
from tonnage.model.kubernetes.selectors import Toleration


class Why(StrEnum):
    """What keeps a device from a request."""

    SELECTOR = "selector"
    IN_USE = "in-use"
    TAINT = "taint"
    COUNTERS = "counters"
    CAPACITY = "capacity"
    CONDITIONS = "conditions"
    OTHER_NODE = "other-node"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A device that a request cannot have. `detail` is the selector, the claim that has it, the taint."""

    device: ClaimDeviceId
    why: Why
    detail: str = ""
    owner: str = ""
    """Whose the selector is: `class gpu.nvidia.com`, `claim ml/gpu`; or capacities that it does not have."""
    unhealthy: bool = False
    """No taint but the agent's keeps the device away, which goes when the device is healthy."""

    @property
    def by_class(self) -> bool:
        """Whether the device is not of the class, which no change of the claim's selectors alters."""
        return self.why is Why.SELECTOR and self.owner.startswith("class ")


@dataclass(frozen=True, slots=True)
class RequestSurvey:
    """A request, or one alternative of it, on a node: of the devices there, `left` are its to choose."""

    claim: ResourceClaim
    request: str
    cls: str
    needs: int
    wants_all: bool
    left: int
    exclusions: tuple[Exclusion, ...]

    @property
    def base(self) -> str:
        """The request's name without that of an alternative."""
        return self.request.partition("/")[0]

    @property
    def met(self) -> bool:
        """Whether the request alone could be met."""
        return self.left >= max(1, self.needs) and not (self.wants_all and self.exclusions_of(Why.IN_USE))

    def exclusions_of(self, why: Why) -> tuple[Exclusion, ...]:
        """Those for one cause."""
        return tuple(exclusion for exclusion in self.exclusions if exclusion.why is why)


@dataclass(frozen=True, slots=True)
class Survey:
    """Why claims cannot be met on a node. `pools` names those that cannot be used, with the cause.

    `constraint`: without it the claims could be met. `in_time`: they could if nothing were in use, or only
    `once_healthy`: if the devices there were healthy, too.
    """

    requests: tuple[RequestSurvey, ...]
    reached: int
    pools: tuple[str, ...] = ()
    constraint: Constraint | None = None
    in_time: bool = False
    once_healthy: bool = False
    without_attribute: int = 0
    """How many of the devices there lack the constraint's attribute."""
    incomplete: bool = False
    """A pool lacks slices that its driver has yet to publish."""
    reliefs: tuple[Relief, ...] = ()
    """What a request could give up, one thing, to be met there."""

    @property
    def short(self) -> tuple[RequestSurvey, ...]:
        """Requests that are not met, with all their alternatives; not those of which one alternative is."""
        met = {(part.claim.key, part.base) for part in self.requests if part.met}
        return tuple(part for part in self.requests if (part.claim.key, part.base) not in met)


def survey(claims: Sequence[ResourceClaim], node: Node, supply: Supply) -> Survey | None:
    """The survey; None when a selector fails or cannot be evaluated, which is another story."""
    pools = pools_for(node, supply)
    requests = Requests(supply, node, pools)
    usable = [candidate for pool in pools if pool.usable for candidate in candidates_of(pool)]
    try:
        surveys = tuple(
            _surveyed(ask, usable, requests, supply)
            for claim in claims
            for ways in requests.asks_of(claim)
            for ask in ways
        )
    except (AllocationError, CelUnsupportedError):
        return None
    idle = replace(supply, held={}, parts={})
    culprit = _culprit(claims, node, supply)
    in_time = isinstance(allocate(claims, node, idle), ClaimDevices)
    ill = any(taint.key == UNHEALTHY for candidate in usable for taint in candidate.device.taints)
    return Survey(
        surveys,
        len(usable),
        tuple(_unusable(pool) for pool in pools if not pool.usable),
        culprit,
        in_time,
        ill and not in_time and isinstance(allocate([*map(_patient, claims)], node, idle), ClaimDevices),
        0
        if culprit is None
        else sum(attribute_of(c.device, c.id.driver, culprit.attribute) is None for c in usable),
        any(not pool.usable and not pool.invalid for pool in pools),
        reliefs(claims, node, supply) if usable else (),
    )


def _patient(claim: ResourceClaim) -> ResourceClaim:
    """The claim as if unhealthy devices were healthy: it tolerates them."""

    def patient(request: DeviceRequest) -> DeviceRequest:
        tolerations = (*request.tolerations, Toleration(UNHEALTHY, "Exists"))
        parts = tuple(map(patient, request.alternatives))
        return replace(request, tolerations=tolerations, alternatives=parts)

    return replace(claim, requests=tuple(map(patient, claim.requests)))


def survey_moved(surveyed: Survey, from_node: str, to_node: str, supply: Supply) -> Survey:
    """The survey of a node as that of another whose devices are alike to the claims (`alike`)."""
    if from_node == to_node:
        return surveyed
    device_on = dict(zip(_own_devices(from_node, supply), _own_devices(to_node, supply), strict=True))

    def moved(exclusion: Exclusion) -> Exclusion:
        identity = device_on[exclusion.device]
        in_use = exclusion.why is Why.IN_USE
        detail = str(supply.held[identity]) if in_use else exclusion.detail
        return replace(exclusion, device=identity, detail=detail)

    requests = tuple(
        replace(request, exclusions=tuple(map(moved, request.exclusions))) for request in surveyed.requests
    )
    return replace(surveyed, requests=requests)


def _own_devices(node: str, supply: Supply) -> Iterator[ClaimDeviceId]:
    """The devices of a node's own slices, in the order in which alike nodes have them alike."""
    for part in slices_in_order(node, supply):
        yield from map(part.id_of, part.devices)


def _surveyed(ask: Ask, usable: list[Candidate], requests: Requests, supply: Supply) -> RequestSurvey:
    exclusions = tuple(
        exclusion for candidate in usable if (exclusion := _excluded(ask, candidate, requests, supply))
    )
    needs = ask.needs if not ask.wants_all else len(ask.all_devices)
    left = len(usable) - len(exclusions)
    return RequestSurvey(ask.claim, ask.name, ask.cls.name, needs, ask.wants_all, left, exclusions)


def _excluded(ask: Ask, candidate: Candidate, requests: Requests, supply: Supply) -> Exclusion | None:
    device, identity, gates = candidate.device, candidate.id, supply.gates
    refusing = requests.refusing(ask, candidate)
    if refusing is not None:
        return Exclusion(identity, Why.SELECTOR, refusing[1], refusing[0])
    if not requests.reaches(candidate):
        return Exclusion(identity, Why.OTHER_NODE)
    if device.waits_for and not gates.conditions:
        return Exclusion(identity, Why.CONDITIONS, ", ".join(device.waits_for))
    if identity in supply.held and not ask.request.admin:
        return Exclusion(identity, Why.IN_USE, str(supply.held[identity]))
    if gates.taints and (taints := untolerated(device.taints, ask.request.tolerations, BLOCKING)):
        ill = all(taint.key == UNHEALTHY for taint in taints)
        return Exclusion(identity, Why.TAINT, ", ".join(map(str, taints)), unhealthy=ill)
    if device.consumes and not _counts(candidate, supply):
        return Exclusion(identity, Why.COUNTERS, ", ".join(sorted(device.consumes)))
    if gates.sharing:
        consumed = consumption(device, ask.request.capacity)
        if consumed is None or not fits(device, consumed, supply.parts.get(identity, {})):
            amounts = sorted(ask.request.capacity or device.capacity)
            missing = [name for name in amounts if name not in device.capacity]
            return Exclusion(identity, Why.CAPACITY, ", ".join(amounts), ", ".join(missing))
    return None


def _counts(candidate: Candidate, supply: Supply) -> bool:
    if not supply.gates.partitions:
        return False
    left = left_in(candidate.pool, supply)
    take(left, candidate.device)
    return suffices(left)


def _unusable(pool: Pool) -> str:
    return f"{pool}: {pool.invalid or 'slices of its generation are missing'}"


def _culprit(claims: Sequence[ResourceClaim], node: Node, supply: Supply) -> Constraint | None:
    """The constraint without which the claims could be met."""
    for claim, constraint in _constraints(claims):
        others = tuple(other for other in claim.constraints if other is not constraint)
        eased = [replace(c, constraints=others) if c is claim else c for c in claims]
        if isinstance(allocate(eased, node, supply), ClaimDevices):
            return constraint
    return None


def _constraints(claims: Sequence[ResourceClaim]) -> Iterator[tuple[ResourceClaim, Constraint]]:
    return ((claim, constraint) for claim in claims for constraint in claim.constraints)
