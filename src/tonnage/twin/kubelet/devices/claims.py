"""dra.Manager without a driver: what a kubelet says of pods with claims that it cannot prepare.

Source: Kubernetes 1.35, pkg/kubelet/cm/dra/manager.go.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.claims.pod_claims import foreign, unnamed
from tonnage.model.errors import ClusterError
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.resource_claims import ResourceClaim
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.reading.cluster import pod_from, snapshot_from
from tonnage.twin.kubelet.live_pod import LivePod
from tonnage.wire import kinds
from tonnage.wire import objects as w

UNPREPARED: Final = "FailedPrepareDynamicResources"
AGAIN_S: Final = 15.0
"""When the same is tried again."""


async def prepared(live: LivePod) -> None:
    """Return once the pod's claims are prepared, which those with a driver's devices never are here."""
    while live.pod.spec.resource_claims and (why := await unprepared(live.node.api, live.pod)):
        live.tell("Warning", UNPREPARED, why)
        await live.node.clock.sleep(AGAIN_S)


async def unprepared(api: KubernetesApi, pod: w.Pod) -> str:
    """What a kubelet says of claims that it cannot prepare; empty: the pod may start."""
    why = await _lacking(api, pod_from(pod))
    return f"Failed to prepare dynamic resources: prepare dynamic resources: {why}" if why else ""


async def _lacking(api: KubernetesApi, pod: Pod) -> str:
    for entry in pod.claims:
        name = entry.claim or entry.made
        if entry.skipped and not name:
            continue
        if why := unnamed(pod, entry):
            return why
        try:
            obj = await api.get(kinds.RESOURCE_CLAIM, name, pod.namespace)
        except ClusterError as error:
            return f"fetch ResourceClaim {name}: {error}"
        [claim] = snapshot_from([obj]).claims
        if why := foreign(pod, entry, claim) or _withheld(pod, claim):
            return why
    return ""


def _withheld(pod: Pod, claim: ResourceClaim) -> str:
    """Why the pod may not have what a claim of its has; empty: nobody prepares anything for it."""
    if all(consumer.uid != pod.uid for consumer in claim.reserved_for):
        return f"pod {pod.name} ({pod.uid}) is not allowed to use ResourceClaim {claim.name} ({claim.uid})"
    if claim.allocation is None:
        return f"ResourceClaim {claim.name}: not allocated"
    drivers = (f"DRA driver {device.id.driver} is not registered" for device in claim.allocation.devices)
    return next(drivers, "")
