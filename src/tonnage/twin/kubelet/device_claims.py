"""What a kubelet without a driver for devices says of pods with claims: it cannot prepare them.

Source: Kubernetes 1.35, pkg/kubelet/cm/dra/manager.go.
"""

from __future__ import annotations

from typing import Final

from tonnage.model.errors import ClusterError
from tonnage.twin.kubelet.live_pod import LivePod
from tonnage.wire import kinds

_AGAIN_S: Final = 15.0


async def prepared(live: LivePod) -> None:
    """Return once the pod's claims are prepared, which those with a driver's devices never are here."""
    while why := await _lacking(live):
        text = f"Failed to prepare dynamic resources: prepare dynamic resources: {why}"
        live.tell("Warning", "FailedPrepareDynamicResources", text)
        await live.node.clock.sleep(_AGAIN_S)


async def _lacking(live: LivePod) -> str:
    told = {str(one.get("name")): one for one in live.pod.status.resource_claim_statuses}
    for entry in live.pod.spec.resource_claims:
        made = told.get(str(entry.get("name")), {})
        name = entry.get("resourceClaimName") or made.get("resourceClaimName")
        if not name:
            continue
        try:
            claim = await live.node.api.get(kinds.RESOURCE_CLAIM, name, live.pod.metadata.namespace)
        except ClusterError as error:
            return f"fetch ResourceClaim {name}: {error}"
        for device in claim.status.get("allocation", {}).get("devices", {}).get("results", ()):
            return f"DRA driver {device['driver']} is not registered"
    return ""
