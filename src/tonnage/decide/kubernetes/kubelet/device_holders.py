"""Which devices of a node its pods hold, as NodeGPUStatus has it, and as it would be with one pod more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from tonnage.decide.kubernetes.kubelet.devices import Ids
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.node.gpu_status import DeviceHolder, GpuDevice, GpuStatus

ContainerDevices: TypeAlias = Mapping[tuple[str, str], Ids]
"""Ids by container and resource."""


def held_ids(status: GpuStatus) -> dict[tuple[str, str, str], set[str]]:
    """Ids by (namespace, pod, resource)."""
    holdings: dict[tuple[str, str, str], set[str]] = {}
    for device in status.devices:
        for holder in device.holders:
            holdings.setdefault((holder.namespace, holder.pod, holder.resource), set()).update(holder.ids)
    return holdings


def with_holder(status: GpuStatus, pod: Pod, devices: ContainerDevices) -> GpuStatus:
    """The status once a pod has these devices."""
    return replace(status, devices=tuple(_held_by(device, pod, devices) for device in status.devices))


def _held_by(device: GpuDevice, pod: Pod, devices: ContainerDevices) -> GpuDevice:
    own = {device.uuid, *(part.uuid for part in device.parts)}
    holders = [
        DeviceHolder(pod.namespace, pod.name, container, resource, tuple(sorted(here)))
        for (container, resource), ids in devices.items()
        if (here := {device_id for device_id in ids if device_id.partition("::")[0] in own})
    ]
    return replace(device, holders=(*device.holders, *holders)) if holders else device
