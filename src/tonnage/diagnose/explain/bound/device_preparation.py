"""Rows 51 and 57: what a bound pod waits for on its node, and the node does not have, as objects tell."""

from __future__ import annotations

from dataclasses import replace

from tonnage.decide.kubernetes.claims.pod_claims import claims_of
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.kubernetes.resource_claims import ResourceClaim
from tonnage.model.layer import Layer
from tonnage.model.reasons.messages.node_symptoms import RuntimeHandlerMissing
from tonnage.model.reasons.messages.symptoms import DraDriverGone, DraDriverUnregistered
from tonnage.model.reasons.reason import Reason

_SLICES = "ResourceSlice"


def claims_in(pod: Pod, snapshot: Snapshot) -> tuple[ResourceClaim, ...]:
    """The pod's claims; none where one of them is missing."""
    names = {entry.claim or entry.made for entry in pod.claims}
    beside = (claim for claim in snapshot.claims if claim.name in names) if names else ()
    return claims_of(pod, {claim.key: claim for claim in beside}).claims


def driver_gone(pod: Pod, snapshot: Snapshot) -> Reason | None:
    """Why a pod that is bound cannot start: nobody offers the pool any more that its devices are of, nor
    another one there.

    kubelet removes the ResourceSlices of a driver on its node that has unregistered.
    """
    if pod.status.phase != "Pending" or not pod.claims or _SLICES in snapshot.missing:
        return None
    pools = {(resource_slice.driver, resource_slice.pool) for resource_slice in snapshot.slices}
    here = {s.driver for s in snapshot.slices if s.scope is not None and s.scope.name == pod.node_name}
    for claim in claims_in(pod, snapshot):
        for device in claim.allocation.devices if claim.allocation is not None else ():
            driver, pool = device.id.driver, device.id.pool
            if (driver, pool) not in pools and driver not in here:
                return DraDriverGone(
                    subject=f"ResourceClaim {claim}",
                    message=f"on {pod.node_name}, the claim {claim.name} waits to be prepared: no driver "
                    f"offers the pool {pool} any more, so the DRA driver {driver} is not registered with "
                    "kubelet there",
                    remedy=f"restart the pod of {driver} on {pod.node_name}; kubelet tries again by itself",
                    source="ResourceClaim status.allocation, ResourceSlices",
                    layer=Layer.PLUGIN,
                    lasting=False,
                    driver=driver,
                    pool=pool,
                    check=_CHECK,
                )
    return None


def with_agents_word(reason: Reason, pod: Pod, snapshot: Snapshot) -> Reason:
    """The reason with what the node's agent says where it is the driver that is not registered."""
    status = snapshot.gpu.get(pod.node_name)
    report = status.claims if status is not None else None
    if not isinstance(reason, DraDriverUnregistered) or report is None or not report.why:
        return reason
    message = f"{reason.message}; the node's agent says: claims are not served: {report.why}"
    remedy = f"do what the agent says: kubectl describe node {pod.node_name}"
    return replace(reason, message=message, remedy=remedy, check=None)


def handler_missing(pod: Pod, snapshot: Snapshot) -> Reason | None:
    """Why a bound pod gets no sandbox: its RuntimeClass's handler is none that the node's runtime has."""
    runtime_class = next((cls for cls in snapshot.runtime_classes if cls.name == pod.runtime_class), None)
    node = next((node for node in snapshot.nodes if node.name == pod.node_name), None)
    if pod.status.phase != "Pending" or runtime_class is None or node is None or not node.handlers:
        return None
    if not runtime_class.handler or runtime_class.handler in node.handlers:
        return None
    handlers = ", ".join(handler for handler in node.handlers if handler)
    return RuntimeHandlerMissing(
        subject=f"Node {node.name}",
        message=f"on {node.name}, it gets no sandbox: the container runtime is not configured with the "
        f"handler {runtime_class.handler} of the RuntimeClass {runtime_class.name}; "
        f"it has {handlers or 'none with a name'}",
        remedy=f"tonnage runtime apply --nvidia-runtime on {node.name}, then restart its runtime; or remove "
        "runtimeClassName where CDI is used",
        source="RuntimeClass handler, Node status.runtimeHandlers",
        layer=Layer.RUNTIME,
        lasting=False,
        handler=runtime_class.handler,
        handlers=tuple(node.handlers),
    )


_CHECK = "the driver's DaemonSet pod on the node and its socket in /var/lib/kubelet/plugins_registry"
