"""Resource claims on a node, told: which selector, holder, taint or constraint excludes which device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.claims.exclusions import (
    Exclusion,
    RequestSurvey,
    Survey,
    Why,
    survey,
    survey_moved,
)
from tonnage.decide.kubernetes.claims.pod_claims import claims_of
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Node, Pod
from tonnage.model.kubernetes.resource_claims import ResourceClaim
from tonnage.model.name_lists import listed
from tonnage.model.reasons.facts import ExcludedDevice, RequestShortage
from tonnage.model.reasons.pod.claims import ClaimNotAllocatable
from tonnage.model.reasons.reason import Reason

_MOST_DEVICES: Final = 64
_MOST_NODES: Final = 1024
_SHORT: Final = {
    Why.SELECTOR: "not selected",
    Why.IN_USE: "in use",
    Why.TAINT: "tainted",
    Why.COUNTERS: "counters used up",
    Why.CAPACITY: "capacity used up",
    Why.CONDITIONS: "not ready",
    Why.OTHER_NODE: "for other nodes",
}


class Surveys:
    """Surveys of nodes for a pod's claims. `kind_of`: a number for what a node's devices are to these.

    Of nodes of one kind one is surveyed; without it, each is.
    """

    def __init__(self, pod: Pod, view: ClusterView, kind_of: Callable[[str], int] | None = None) -> None:
        self.claims = claims_of(pod, view.supply.claims).waiting
        self._supply = view.supply
        self._kind_of = kind_of
        self._by_kind: dict[int, tuple[str, Survey | None]] = {}

    def of(self, node: Node) -> Survey | None:
        """The survey of a node; None when a selector fails or cannot be evaluated."""
        if self._kind_of is None:
            return survey(self.claims, node, self._supply)
        kind = self._kind_of(node.name)
        if kind not in self._by_kind:
            self._by_kind[kind] = node.name, survey(self.claims, node, self._supply)
        origin, surveyed = self._by_kind[kind]
        if surveyed is None or surveyed.pools:  # which name the pool
            return survey(self.claims, node, self._supply)
        return survey_moved(surveyed, origin, node.name, self._supply)


def with_survey(reason: ClaimNotAllocatable, surveys: Surveys, node: NodeView, view: ClusterView) -> Reason:
    """The reason of a node without devices for the pod's claims, told device by device."""
    claims = surveys.claims
    if len(view.nodes) > _MOST_NODES and node.name not in view.supply.by_node:
        return replace(reason, message=_nothing(claims))
    surveyed = surveys.of(node.node)
    if surveyed is None:
        return reason
    return replace(
        reason,
        message=_survey_text(surveyed, view, claims),
        causes=tuple(_words(surveyed)),
        requests=tuple(_fact(request) for request in surveyed.requests),
        devices=surveyed.reached,
        pools=tuple(surveyed.pools),
        remedy=_remedy(surveyed, reason.remedy),
        lasting=not (surveyed.in_time or surveyed.incomplete),
    )


def devices_for(pod: Pod, node: NodeView, view: ClusterView) -> dict[str, tuple[str, ...]]:
    """The devices that the pod's claims have, or would be given on a node, by `resourceclaims/NAME`."""
    claims = claims_of(pod, view.supply.claims)
    waiting = claims.waiting
    allocated = view.allocator.devices_on(node.node, waiting) if waiting else ()
    by_claim = {
        claim.name: [device.id for device in claim.allocation.devices]
        for claim in claims.claims
        if claim.allocation is not None
    }
    by_claim |= {
        c.name: [picked.id for picked in part] for c, part in zip(waiting, allocated or (), strict=False)
    }
    return {f"resourceclaims/{name}": tuple(map(str, ids)) for name, ids in by_claim.items()}


def _words(surveyed: Survey) -> list[str]:
    """What excludes devices there, in few words."""
    if not surveyed.reached and not surveyed.pools:
        return ["none published"]
    short = [request for request in surveyed.requests if not request.met]
    causes = [_SHORT[why] for why in Why if any(request.exclusions_of(why) for request in short)]
    causes += ["too few"] if any(not request.exclusions for request in short) else []
    causes += ["not together"] if not short else []
    return [*causes, *(["pool unusable"] if surveyed.pools else [])]


def _nothing(claims: tuple[ResourceClaim, ...]) -> str:
    return f"no driver publishes devices that the node reaches; it cannot meet {listed(map(str, claims))}"


def _survey_text(surveyed: Survey, view: ClusterView, claims: tuple[ResourceClaim, ...]) -> str:
    parts = [f"the pool {pool}" for pool in surveyed.pools]
    if not surveyed.reached and not parts:
        return _nothing(claims)
    short = [request for request in surveyed.requests if not request.met]
    parts += [_request_text(request, view) for request in short]
    if not short and surveyed.constraint is not None:
        name = "distinctAttribute" if surveyed.constraint.distinct else "matchAttribute"
        parts.append(f"the free devices together do not meet {name} {surveyed.constraint.attribute}")
    elif not short:
        parts.append("each request can be met alone, but not all of them at once")
    return "; ".join(parts)


def _request_text(request: RequestSurvey, view: ClusterView) -> str:
    amount = "all devices" if request.wants_all else f"{request.needs}"
    head = (
        f"claim {request.claim}, request {request.request}: "
        f"wants {amount} of class {request.cls}, {request.left} left"
    )
    causes = list(_causes(request, view))
    return f"{head} ({'; '.join(causes)})" if causes else head


def _causes(request: RequestSurvey, view: ClusterView) -> Iterator[str]:
    for why in Why:
        excluded = request.exclusions_of(why)
        if not excluded:
            continue
        names = listed(exclusion.device.device for exclusion in excluded)
        match why:
            case Why.SELECTOR:
                yield from _selectors(excluded)
            case Why.IN_USE:
                yield f"{names} in use by {listed(dict.fromkeys(_holder(e, view) for e in excluded))}"
            case Why.TAINT:
                yield f"{names} tainted {listed(dict.fromkeys(e.detail for e in excluded))}"
            case Why.COUNTERS:
                yield f"{names} need more of {excluded[0].detail} than is left"
            case Why.CAPACITY:
                yield f"{names} lack {excluded[0].detail}"
            case Why.CONDITIONS:
                yield f"{names} wait for {excluded[0].detail}, which this release cannot"
            case Why.OTHER_NODE:
                yield f"{names} for other nodes"


def _selectors(excluded: tuple[Exclusion, ...]) -> Iterator[str]:
    for owner, expression in dict.fromkeys((e.owner, e.detail) for e in excluded):
        names = listed(e.device.device for e in excluded if (e.owner, e.detail) == (owner, expression))
        yield f"{names} not selected by {owner}: {expression}"


def _holder(exclusion: Exclusion, view: ClusterView) -> str:
    """The claim that has a device, with the pods that use it."""
    namespace, _, name = exclusion.detail.partition("/")
    claim = view.supply.claims.get((namespace, name))
    users = [user.name for user in claim.reserved_for if user.name] if claim is not None else []
    return f"claim {exclusion.detail} of {listed(users)}" if users else f"claim {exclusion.detail}"


def _remedy(surveyed: Survey, otherwise: str) -> str:
    if surveyed.in_time:
        holders = dict.fromkeys(
            e.detail for request in surveyed.requests for e in request.exclusions_of(Why.IN_USE)
        )
        return f"wait until the pods with {listed(holders)} have ended" if holders else "wait for devices"
    if surveyed.pools:
        return "check the driver: it is replacing its slices, or publishes them wrongly"
    if surveyed.constraint is not None:
        return f"remove the constraint on {surveyed.constraint.attribute}, or ask for fewer devices"
    return "ask for fewer devices, or widen the selectors" if surveyed.reached else otherwise


def _fact(request: RequestSurvey) -> RequestShortage:
    return RequestShortage(
        claim=str(request.claim),
        request=request.request,
        class_=request.cls,
        wants="all" if request.wants_all else request.needs,
        left=request.left,
        excluded=tuple(
            ExcludedDevice(str(exclusion.device), exclusion.why.value, exclusion.detail, exclusion.owner)
            for exclusion in request.exclusions[:_MOST_DEVICES]
        ),
    )
