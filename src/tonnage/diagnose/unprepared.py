"""Row 51: a pod that waits on its node for claimed devices of a driver that kubelet does not know there."""

from __future__ import annotations

from tonnage.decide.cluster.claims.waiting import claims_of
from tonnage.model.cluster import Pod, Snapshot
from tonnage.model.symptoms import Symptom
from tonnage.model.verdict import Layer, Reason

_SLICES = "ResourceSlice"


def driver_gone(pod: Pod, snapshot: Snapshot) -> Reason | None:
    """Why a pod that is bound cannot start: nobody offers the pool any more that its devices are of.

    kubelet removes the ResourceSlices of a driver on its node that has unregistered.
    """
    if pod.status.phase != "Pending" or not pod.claims or _SLICES in snapshot.missing:
        return None
    pools = {(each.driver, each.pool) for each in snapshot.slices}
    known = {claim.key: claim for claim in snapshot.claims}
    for claim in claims_of(pod, known).claims:
        for device in claim.allocation.devices if claim.allocation is not None else ():
            driver, pool = device.id.driver, device.id.pool
            if (driver, pool) not in pools:
                return Reason(
                    Symptom.DRA_DRIVER_UNREGISTERED,
                    Layer.PLUGIN,
                    f"ResourceClaim {claim}",
                    f"on {pod.node_name}, the claim {claim.name} waits to be prepared: nobody offers "
                    f"the pool {pool} any more, so the DRA driver {driver} is not registered with "
                    "kubelet there",
                    {"driver": driver, "pool": pool, "check": _CHECK},
                    f"restart the pod of {driver} on {pod.node_name}; kubelet tries again by itself",
                    "ResourceClaim status.allocation, ResourceSlices",
                    lasting=False,
                )
    return None


_CHECK = "the driver's DaemonSet pod on the node and its socket in /var/lib/kubelet/plugins_registry"
