"""DynamicResources.PreFilter: whether a pod's claims exist, and whether what they ask exists.

Source: kube-scheduler dynamicresources (PreEnqueue, PreFilter), dynamic-resource-allocation/resourceclaim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.resource_claims import PodClaim, ResourceClaim


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The claims of a pod in its order. `missing` says, as the scheduler does, why it is not tried yet."""

    claims: tuple[ResourceClaim, ...] = ()
    missing: str = ""

    @property
    def waiting(self) -> tuple[ResourceClaim, ...]:
        """Those that have not been given any devices."""
        return tuple(claim for claim in self.claims if claim.allocation is None)


def claims_of(pod: Pod, claims_by_key: Mapping[tuple[str, str], ResourceClaim]) -> PodClaims:
    """The claims of a pod, or the first thing that keeps it from being tried."""
    claims: list[ResourceClaim] = []
    for entry in pod.claims:
        name = entry.claim or entry.made
        if entry.skipped and not name:
            continue
        missing, claim = _claim_of(pod, entry, claims_by_key.get((pod.namespace, name)) if name else None)
        if claim is None:
            return PodClaims(missing=missing)
        claims.append(claim)
    return PodClaims(tuple(claims))


def unnamed(pod: Pod, entry: PodClaim) -> str:
    """Why an entry of a pod has no claim with a name; empty: it has one."""
    where = f"{pod.namespace}/{pod.name}"
    if not entry.claim and not entry.template:
        return f'pod "{where}", spec.resourceClaim "{entry.name}": none of the supported fields are set'
    return "" if entry.claim or entry.made else f'pod "{where}": ResourceClaim not created yet'


def foreign(pod: Pod, entry: PodClaim, claim: ResourceClaim) -> str:
    """Why a claim that should have been made for a pod is none of its; empty: it is."""
    if entry.claim or claim.owner == pod.uid:
        return ""
    return f"ResourceClaim {claim} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"


def _claim_of(pod: Pod, entry: PodClaim, claim: ResourceClaim | None) -> tuple[str, ResourceClaim | None]:
    if missing := unnamed(pod, entry):
        return missing, None
    if claim is None:
        return f'resourceclaim.resource.k8s.io "{entry.claim or entry.made}" not found', None
    if claim.terminating:
        return f'resourceclaim "{claim.name}" is being deleted', None
    missing = foreign(pod, entry, claim)
    return missing, None if missing else claim


def stops(claims: PodClaims, supply: Supply) -> tuple[str, bool]:
    """The scheduler's words on claims that no node can meet, and whether they are an error; empty: go on."""
    for claim in claims.claims:
        if claim.in_flight:
            return f"resource claim {claim} is in the process of being allocated", False
        for request in claim.requests if claim.allocation is None else ():
            if not request.complete:
                return f"resource claim {claim}, request {request.name}: unknown request type", False
            parts = [(request.name, request.device_class)]
            if request.alternatives:
                parts = [(f"{request.name}/{part.name}", part.device_class) for part in request.alternatives]
            for name, cls in parts:
                if not cls:
                    return f"request {name}: unsupported request type", True
                if cls not in supply.classes:
                    return f"request {name}: device class {cls} does not exist", False
    return "", False


def unreadable(claims: PodClaims, supply: Supply) -> Iterator[str]:
    """Objects that bear on the claims and could not be read as a whole."""
    for claim in claims.claims:
        for problem in claim.problems:
            yield f"ResourceClaim {claim}: {problem.where}: {problem.what}"
    class_names = {
        part.device_class
        for claim in claims.waiting
        for request in claim.requests
        for part in (request.alternatives or (request,))
    }
    for name in sorted(class_names & set(supply.classes)):
        for problem in supply.classes[name].problems:
            yield f"DeviceClass {name}: {problem.where}: {problem.what}"
    if claims.waiting:
        for slices in supply.by_pool.values():
            for resource_slice in slices:
                for problem in resource_slice.problems:
                    yield f"ResourceSlice {resource_slice.name}: {problem.where}: {problem.what}"
