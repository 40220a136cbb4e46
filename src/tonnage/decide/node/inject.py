"""What a container is told about its devices."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from tonnage.decide.node.access import only_cdi
from tonnage.decide.node.mps.daemons import mps_edits
from tonnage.model.devices.sharing import (
    Access,
    Allocation,
    DeviceIdStrategy,
    DeviceListStrategy,
    DeviceSpec,
    Injection,
    Mount,
    PluginConfig,
)
from tonnage.model.names import CDI_IMEX_KIND, CDI_VENDOR, cdi_device
from tonnage.model.node.plugin_settings import CdiSettings

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
IMEX_CHANNELS: Final = "NVIDIA_IMEX_CHANNELS"
_MOUNT_FOLDER: Final = "/var/run/nvidia-container-devices"
_ANNOTATION: Final = "nvidia-device-plugin_"
_DIGITS: Final = 16


def inject(allocation: Allocation, config: PluginConfig, access: Access) -> Injection:
    """Answers of every strategy that is configured, combined; volume-mounts wins over envvar's value.

    With strategies of CDI alone there is nothing else: what else a container needs is in the specs, but for
    what a client of MPS does, which is of no device. Replicas of one device are that device once. The
    annotation's key follows from the ids: no two of a pod are alike.

    Source: NVIDIA/k8s-device-plugin v0.20.
    """
    names = allocation.uuids
    if config.device_id is DeviceIdStrategy.INDEX:
        names = tuple(access.index_of.get(uuid, uuid) for uuid in allocation.uuids)
    annotated = DeviceListStrategy.CDI_ANNOTATIONS in config.device_list
    named = DeviceListStrategy.CDI_CRI in config.device_list
    qualified = tuple(_qualified(names, config, access)) if annotated or named else ()
    plain = not only_cdi(config)
    variables, mounts = mps_edits(allocation.resource, config)
    return Injection(
        env={**(dict(_variables(names, config, access)) if plain else {}), **variables},
        cdi_devices=qualified if named else (),
        mounts=(*_mounts(names, config, access), *mounts),
        nodes=tuple(_nodes(allocation, access)) if plain and config.pass_device_specs else (),
        annotations={_key(allocation, config.cdi): ",".join(qualified)} if annotated else {},
    )


def _qualified(names: tuple[str, ...], config: PluginConfig, access: Access) -> Iterator[str]:
    """CDI devices: the container's own, IMEX channels, what else the node is configured to give."""
    yield from map(cdi_device, names)
    yield from (cdi_device(str(channel), CDI_IMEX_KIND) for channel in access.channels)
    yield from (cdi_device("all", f"{CDI_VENDOR}/{extra.value}") for extra in config.extras)


def _variables(names: tuple[str, ...], config: PluginConfig, access: Access) -> Iterator[tuple[str, str]]:
    if DeviceListStrategy.ENVVAR in config.device_list:
        yield VISIBLE_DEVICES, ",".join(names)
        if access.channels:
            yield IMEX_CHANNELS, ",".join(map(str, access.channels))
    if DeviceListStrategy.VOLUME_MOUNTS in config.device_list:
        yield VISIBLE_DEVICES, _MOUNT_FOLDER
    for extra in config.extras:
        yield f"NVIDIA_{extra.name}", "enabled"


def _mounts(names: tuple[str, ...], config: PluginConfig, access: Access) -> Iterator[Mount]:
    if DeviceListStrategy.VOLUME_MOUNTS in config.device_list:
        file_names = [*names, *(f"imex/{channel}" for channel in access.channels)]
        yield from (Mount("/dev/null", f"{_MOUNT_FOLDER}/{name}") for name in file_names)


def _nodes(allocation: Allocation, access: Access) -> Iterator[DeviceSpec]:
    """Each node once: MIG devices of one GPU have its own in common."""
    own = (spec for uuid in allocation.uuids for spec in access.nodes_of.get(uuid, ()))
    yield from dict.fromkeys((*access.common, *own, *access.channels.values()))


def _key(allocation: Allocation, cdi: CdiSettings) -> str:
    digest = sha256("\n".join((allocation.resource, *allocation.ids)).encode()).hexdigest()
    return f"{cdi.annotation_prefix}{_ANNOTATION}{digest[:_DIGITS]}"
