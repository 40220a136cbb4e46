"""KUB-2: a running pod whose own device is not healthy. Kubernetes lets it run on and says nothing to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tonnage.diagnose.rules.devices.device_faults import named_unhealthy_devices
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.name_lists import listed
from tonnage.model.reasons.gpu.devices import DeviceUnhealthy
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Remedy


def held_unhealthy_devices(pod: Pod, snapshot: Snapshot) -> Iterator[tuple[Reason, Remedy]]:
    """One reason for all unhealthy devices, or MIG devices, that a running pod holds."""
    status = snapshot.gpu.get(pod.node_name)
    if status is None or pod.status.phase != "Running":
        return
    own = []
    for device in status.devices:
        held = [holder for holder in device.holders if (holder.namespace, holder.pod) == pod.key]
        ids = {device_id for holder in held for device_id in holder.ids}
        parts = tuple(part for part in device.parts if part.uuid in ids)
        if held:
            own.append(replace(device, parts=parts))
    unhealthy = tuple(named_unhealthy_devices(replace(status, devices=tuple(own))))
    if not unhealthy:
        return
    remedy = (
        f"end the pod when that suits its owner, and do on {pod.node_name} what the device's reason asks for"
    )
    yield (
        DeviceUnhealthy(
            subject=f"Pod {pod.namespace}/{pod.name}",
            message=(
                f"it holds {listed(unhealthy)}; Kubernetes lets it run on, and no new pod gets that device"
            ),
            remedy=remedy,
            source="NodeGPUStatus",
            devices=tuple(unhealthy),
        ),
        Remedy(remedy, ""),
    )
