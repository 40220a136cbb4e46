"""dra.Manager.prepareResources: which claims of a pod must be prepared, before any driver is asked.

Source: Kubernetes 1.35, pkg/kubelet/cm/dra/manager.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tonnage.decide.kubernetes.claims.pod_claims import foreign, unnamed
from tonnage.model.errors import ClusterError
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.resource_claims import PodClaim, ResourceClaim
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.reading.cluster import pod_from, snapshot_from
from tonnage.wire import kinds
from tonnage.wire import objects as w

UNPREPARED: Final = "FailedPrepareDynamicResources"
AGAIN_S: Final = 15.0
"""When the same is tried again."""
PREFIX: Final = "Failed to prepare dynamic resources: prepare dynamic resources: "


def has_claims(pod: w.Pod) -> bool:
    """Whether the pod names claims, or has one for extended resources that a class stands for."""
    return bool(pod.spec.resource_claims or pod.status.extended_resource_claim_status)


async def unprepared(api: KubernetesApi, pod: w.Pod) -> str:
    """What a kubelet without any driver says of claims that it cannot prepare; empty: the pod may start."""
    claims = await claims_to_prepare(api, pod, lambda _: False)
    return f"{PREFIX}{claims}" if isinstance(claims, str) else ""


async def claims_to_prepare(
    api: KubernetesApi, pod: w.Pod, registered: Callable[[str], bool]
) -> Sequence[ResourceClaim] | str:
    """The pod's claims with devices, in its order; or what the kubelet says against preparing them."""
    owner = pod_from(pod)
    made = str(pod.status.extended_resource_claim_status.get("resourceClaimName") or "")
    claims: list[ResourceClaim] = []
    for entry in (*owner.claims, *((PodClaim("", claim=made),) if made else ())):
        name = entry.claim or entry.made
        if entry.skipped and not name:
            continue
        if why := unnamed(owner, entry):
            return why
        try:
            obj = await api.get(kinds.RESOURCE_CLAIM, name, owner.namespace)
        except ClusterError as error:
            return f"fetch ResourceClaim {name}: {error}"
        [claim] = snapshot_from([obj]).claims
        if why := foreign(owner, entry, claim) or _withheld(owner, claim, registered):
            return why
        claims.append(claim)
    return claims


def _withheld(pod: Pod, claim: ResourceClaim, registered: Callable[[str], bool]) -> str:
    """Why the pod may not have what a claim of its has; empty: it may."""
    if all(consumer.uid != pod.uid for consumer in claim.reserved_for):
        return f"pod {pod.name} ({pod.uid}) is not allowed to use ResourceClaim {claim.name} ({claim.uid})"
    if claim.allocation is None:
        return f"ResourceClaim {claim.name}: not allocated"
    absent = (device.id.driver for device in claim.allocation.devices if not registered(device.id.driver))
    return next((f"DRA driver {driver} is not registered" for driver in absent), "")
