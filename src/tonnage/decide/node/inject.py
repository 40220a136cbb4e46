"""What a container is told about its devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.model.names import cdi_device
from tonnage.model.sharing import (
    Allocation,
    DeviceIdStrategy,
    DeviceListStrategy,
    Injection,
    Mount,
    PluginConfig,
)

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
_MOUNT_FOLDER: Final = "/var/run/nvidia-container-devices"
_ANNOTATION: Final = "cdi.k8s.io/nvidia-device-plugin_"


def inject(
    allocation: Allocation, config: PluginConfig, index_of: Mapping[str, int], *, request_id: str
) -> Injection:
    """Answers of every strategy that is configured, combined; volume-mounts wins over envvar's value.

    `request_id` makes the annotation's key unique in a pod. Source: NVIDIA/k8s-device-plugin v0.20.
    """
    names = allocation.uuids
    if config.device_id is DeviceIdStrategy.INDEX:
        names = tuple(str(index_of.get(uuid, uuid)) for uuid in allocation.uuids)
    qualified = tuple(cdi_device(name) for name in names)
    strategies = config.device_list
    env: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    if DeviceListStrategy.ENVVAR in strategies:
        env[VISIBLE_DEVICES] = ",".join(names)
    if DeviceListStrategy.VOLUME_MOUNTS in strategies:
        env[VISIBLE_DEVICES] = _MOUNT_FOLDER
        mounts = tuple(Mount("/dev/null", f"{_MOUNT_FOLDER}/{name}") for name in names)
    return Injection(
        env,
        qualified if DeviceListStrategy.CDI_CRI in strategies else (),
        mounts,
        {f"{_ANNOTATION}{request_id}": ",".join(qualified)}
        if DeviceListStrategy.CDI_ANNOTATIONS in strategies
        else {},
    )
