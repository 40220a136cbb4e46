"""Which device an id of kubelet's list means: UUIDs, replicas of them, and device names as on GKE."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_DEVICE_NAME: Final = re.compile(
    r"(?P<name>nvidia[0-9]{1,6})(?:/gi(?P<instance>[0-9]{1,6}))?(?:/vgpu(?P<replica>[0-9]{1,9}))?"
)
_OLD_MIG: Final = re.compile(r"MIG-(?P<gpu>GPU-[0-9a-f-]{1,64})/(?P<instance>[0-9]{1,6})/[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class DeviceReference:
    """A device by UUID or device name, and the GPU instance where the id names one by number."""

    name: str
    gpu_instance: int | None = None
    replica: str = ""


def device_reference(device_id: str) -> DeviceReference:
    """What the id means.

    >>> device_reference("GPU-8a1e::3")
    DeviceReference(name='GPU-8a1e', gpu_instance=None, replica='3')
    >>> device_reference("nvidia0/gi2/vgpu1")
    DeviceReference(name='nvidia0', gpu_instance=2, replica='1')
    >>> device_reference("MIG-GPU-8a1e/7/0")
    DeviceReference(name='GPU-8a1e', gpu_instance=7, replica='')
    """
    if match := _DEVICE_NAME.fullmatch(device_id):
        instance = match["instance"]
        return DeviceReference(match["name"], int(instance) if instance else None, match["replica"] or "")
    name, _, replica = device_id.partition("::")
    if match := _OLD_MIG.fullmatch(name):
        return DeviceReference(match["gpu"], int(match["instance"]), replica)
    return DeviceReference(name, None, replica)
