"""Resource claims on a node, told: which selector, holder, taint or constraint excludes which device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.claims.alike import kind_on
from tonnage.decide.kubernetes.claims.exclusions import (
    RequestSurvey,
    Survey,
    Why,
    survey,
    survey_moved,
)
from tonnage.decide.kubernetes.claims.extended_resources import claim_on
from tonnage.decide.kubernetes.claims.pod_claims import claims_of
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.diagnose.explain.nodes.claim_texts import no_devices_text, survey_remedy, survey_text
from tonnage.model.kubernetes.cluster import Node, Pod
from tonnage.model.kubernetes.resource_claims import ResourceClaim
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
_OTHER_CLASS: Final = "not of the class"


class Surveys:
    """Surveys of nodes for a pod's claims. `kind_of`: a number for what a node's devices are to these.

    Of nodes of one kind one is surveyed; without it, each is.
    """

    def __init__(self, pod: Pod, view: ClusterView, kind_of: Callable[[str], int] | None = None) -> None:
        self.pod = pod
        self._claims = claims_of(pod, view.supply.claims).waiting
        self._supply = view.supply
        self._kind_of = kind_of
        self._by_kind: dict[Hashable, tuple[str, Survey | None]] = {}

    def claims_on(self, node: Node) -> tuple[ResourceClaim, ...]:
        """The claims that wait for devices, with that for what a class stands for on the node."""
        own = claim_on(self.pod, node, self._supply)
        return self._claims if own is None else (*self._claims, own)

    def of(self, node: Node) -> Survey | None:
        """The survey of a node; None when a selector fails or cannot be evaluated."""
        claims = self.claims_on(node)
        kind = self._kind(node, claims)
        if kind is None:
            return survey(claims, node, self._supply)
        if kind not in self._by_kind:
            self._by_kind[kind] = node.name, survey(claims, node, self._supply)
        origin, surveyed = self._by_kind[kind]
        if surveyed is None or surveyed.pools:  # which name the pool
            return survey(claims, node, self._supply)
        return survey_moved(surveyed, origin, node.name, self._supply)

    def _kind(self, node: Node, claims: tuple[ResourceClaim, ...]) -> Hashable:
        """What the node's devices are to the claims, equal for nodes that answer alike; None: ask each."""
        if self._kind_of is not None:
            return self._kind_of(node.name)
        return kind_on(node, claims, self._supply) if len(claims) > len(self._claims) else None


def with_survey(reason: ClaimNotAllocatable, surveys: Surveys, node: NodeView, view: ClusterView) -> Reason:
    """The reason of a node without devices for the pod's claims, told device by device."""
    claims = surveys.claims_on(node.node)
    if len(view.nodes) > _MOST_NODES and node.name not in view.supply.by_node:
        return replace(reason, message=no_devices_text(claims))
    surveyed = surveys.of(node.node)
    if surveyed is None:
        return reason
    status = view.snapshot.gpu.get(node.name)
    unserved = status.claims.fault if status is not None and status.claims is not None else ""
    agents = f"; its agent says: {unserved}" if unserved and not surveyed.reached else ""
    return replace(
        reason,
        message=survey_text(surveyed, view, claims) + agents,
        causes=tuple(_words(surveyed)),
        requests=tuple(_fact(request) for request in surveyed.requests),
        devices=surveyed.reached,
        pools=tuple(surveyed.pools),
        remedy=survey_remedy(surveyed, surveys.pod, view),
        lasting=not (surveyed.in_time or surveyed.once_healthy or surveyed.incomplete),
    )


def devices_for(pod: Pod, node: NodeView, view: ClusterView) -> dict[str, tuple[str, ...]]:
    """The devices that the pod's claims have, or would be given on a node, by `resourceclaims/NAME`."""
    claims = claims_of(pod, view.supply.claims)
    own = claim_on(pod, node.node, view.supply)
    waiting = claims.waiting if own is None else (*claims.waiting, own)
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
    short = surveyed.short
    causes: list[str] = []
    for why in Why:
        excluded = [exclusion for request in short for exclusion in request.exclusions_of(why)]
        if excluded:
            causes.append(_OTHER_CLASS if all(e.by_class for e in excluded) else _SHORT[why])
    causes += ["too few"] if any(not request.exclusions for request in short) else []
    causes += ["not together"] if not short else []
    return [*causes, *(["pool unusable"] if surveyed.pools else [])]


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
        counts=dict(Counter("class" if e.by_class else e.why.value for e in request.exclusions)),
    )
