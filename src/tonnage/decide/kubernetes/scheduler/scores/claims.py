"""DynamicResources: the earlier an alternative of a request, the better; claims without any give nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tonnage.decide.kubernetes.claims.pod_claims import PodClaims, claims_of
from tonnage.decide.kubernetes.scheduler.scoring import Feasible, scaled
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.resource_claims import ResourceClaim

NAME: Final = "DynamicResources"
WEIGHT: Final = 2
_MOST_ALTERNATIVES: Final = 8


def rate(pod: Pod, feasible: Feasible, view: ClusterView) -> Mapping[str, int] | None:
    """Rank of the chosen alternatives, where the release has this column at all."""
    if not view.profile.scores_claims:
        return None
    claims = claims_of(pod, view.supply.claims) if pod.claims else PodClaims()
    if not any(request.alternatives for claim in claims.claims for request in claim.requests):
        return dict.fromkeys(feasible, 0)
    return scaled({name: _rank(claims, node, view) for name, node in feasible.items()})


def _rank(claims: PodClaims, node: NodeView, view: ClusterView) -> int:
    waiting = claims.waiting
    devices = view.allocator.devices_on(node.node, waiting) if waiting else ()
    requests = {
        claim.key: [picked.request for picked in part] for claim, part in zip(waiting, devices, strict=False)
    }
    for claim in claims.claims:
        if claim.allocation is not None:
            requests[claim.key] = [device.request for device in claim.allocation.devices]
    return sum(worth_of(claim, requests.get(claim.key, ())) for claim in claims.claims)


def worth_of(claim: ResourceClaim, chosen: Iterable[str]) -> int:
    """What the alternatives that were chosen for a claim's requests are worth, given by their names."""
    names = set(chosen)
    return sum(
        _MOST_ALTERNATIVES - index
        for request in claim.requests
        for index, part in enumerate(request.alternatives)
        if f"{request.name}/{part.name}" in names
    )
