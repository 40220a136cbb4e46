"""ADM-5, SHR-2: a running pod that holds several replicas of one device: it has no more for them."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.diagnose.case import device_needs
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.names import parse_device_id
from tonnage.model.node.device_counts import DeviceCount, device_count
from tonnage.model.node.gpu_status import GpuStatus
from tonnage.model.reasons.facts import SharedDevices
from tonnage.model.reasons.pod.pods import ReplicasNotDevices
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Remedy


def held_replicas(pod: Pod, snapshot: Snapshot) -> Iterator[tuple[Reason, Remedy]]:
    """One reason for each resource of which a running pod has more replicas than devices."""
    node = next((node for node in snapshot.nodes if node.name == pod.node_name), None)
    if node is None or pod.status.phase != "Running":
        return
    status = snapshot.gpu.get(pod.node_name)
    for resource, count in device_needs(pod).items():
        there = device_count(node, resource, status)
        held = _devices_held(pod, resource, status)
        if count > 1 and there.shared and held < count:
            yield _warning(pod, there, count, held)


def _devices_held(pod: Pod, resource: str, status: GpuStatus | None) -> int:
    """Devices whose replicas the pod holds, as the agent says; 0: it does not say."""
    holders = [holder for device in status.devices for holder in device.holders] if status is not None else []
    ids = (
        parse_device_id(text)
        for holder in holders
        if (holder.namespace, holder.pod) == pod.key and holder.resource == resource
        for text in holder.ids
    )
    return len({device.uuid for device in ids})


def _warning(pod: Pod, there: DeviceCount, count: int, held: int) -> tuple[Reason, Remedy]:
    devices = f"one {there.noun}" if held == 1 else f"{held} {there.noun}s"
    words = f"its {count} {there.resource} are replicas of {devices}" if held else there.in_words(count)
    remedy = "ask for 1, which is a share of a GPU, or select nodes whose GPUs are not shared"
    reason = ReplicasNotDevices(
        subject=f"Pod {pod.namespace}/{pod.name}",
        message=f"on {pod.node_name}, {words}; replicas add no memory or compute",
        remedy=remedy,
        source="NodeGPUStatus" if held else "Node labels",
        resource=there.resource,
        requested=count,
        nodes=(SharedDevices(pod.node_name, there.devices, there.replicas),),
    )
    return reason, Remedy(remedy, "frees replicas that give the pod nothing")
