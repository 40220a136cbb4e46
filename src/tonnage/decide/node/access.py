"""How containers get at a node's devices: indices, device nodes, IMEX channels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tonnage.decide.node.resource_units import DeviceUnit, index_of, parts_of
from tonnage.model.devices.device_nodes import CAPABILITY_FOLDER, CONTROL_NODES, IMEX_FOLDER, DeviceNodes
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import Access, DeviceListStrategy, DeviceSpec, PluginConfig
from tonnage.model.reasons.gpu.offers import (
    ImexChannelAbsent,
    ImexChannelMissing,
    MigCapabilityMissing,
    OfferReason,
)

CDI: Final = frozenset({DeviceListStrategy.CDI_ANNOTATIONS, DeviceListStrategy.CDI_CRI})


def only_cdi(config: PluginConfig) -> bool:
    """Whether containers are told their devices by CDI alone: then nothing else is answered, either."""
    return CDI.issuperset(config.device_list)


def access_to(inventory: Inventory, config: PluginConfig) -> Access:
    """How to reach every device, with the nodes that are there; those of devices and their parts always."""
    nodes = inventory.nodes
    indices = {device.uuid: index_of(device) for device in inventory.devices}
    indices |= {mig.uuid: index_of(device, mig) for device, mig in parts_of(inventory)}
    specs = {device.uuid: _specs(_device_paths(device), config) for device in inventory.devices}
    for device, mig in parts_of(inventory):
        numbers = [nodes.capabilities[name] for name in _openable_capabilities(device, mig, nodes)]
        paths = [f"{CAPABILITY_FOLDER}/nvidia-cap{number}" for number in numbers]
        specs[mig.uuid] = _specs([*_device_paths(device), *paths], config)
    common = [path for path in CONTROL_NODES if path in nodes.own or path in nodes.driver]
    channels = {number: _channel(number, config, nodes) for number in config.imex.channels}
    return Access(
        indices,
        specs,
        _specs(common, config),
        {number: spec for number, spec in channels.items() if spec is not None},
    )


def obstacle(
    unit: DeviceUnit, config: PluginConfig, inventory: Inventory, access: Access
) -> OfferReason | None:
    """Why no container can work with a device that is well itself; None when one can."""
    subject = f"Device {unit.uuid}"
    if config.imex.required:
        for number in config.imex.channels:
            if number not in access.channels:
                message = f"requested IMEX channel channel{number} does not exist"
                return ImexChannelMissing(subject=subject, message=message, uuid=unit.uuid, channel=number)
    if unit.mig is None:
        return None
    plain = config.pass_device_specs and not only_cdi(config)
    if not plain and not (CDI.intersection(config.device_list) and inventory.nodes.own):
        return None
    openable = _openable_capabilities(unit.device, unit.mig, inventory.nodes)
    missing = [name for name in capabilities_of(unit.device, unit.mig) if name not in openable]
    if not missing:
        return None
    place = missing[0].replace("/", "/mig/", 1)
    level = "GPU" if "/ci" not in place else "compute"
    path = f"/proc/driver/nvidia/capabilities/{place}"
    message = f"missing MIG {level} instance capability path: {path}"
    return MigCapabilityMissing(subject=subject, message=message, uuid=unit.uuid, path=path)


def absent_channels(config: PluginConfig, access: Access) -> Iterator[ImexChannelAbsent]:
    """The channels that containers go without."""
    for number in config.imex.channels:
        if number not in access.channels and not config.imex.required:
            message = f"IMEX channel channel{number} does not exist: containers go without it"
            yield ImexChannelAbsent(message=message, channel=number)


def _device_paths(device: Device) -> list[str]:
    return [] if device.minor is None else [f"/dev/nvidia{device.minor}"]


def capabilities_of(device: Device, mig: MigDevice) -> tuple[str, ...]:
    """Names of what a container may do with a MIG device; Source: NVIDIA's `mig-minors`."""
    instance = f"gpu{device.minor}/gi{mig.gpu_instance}"
    return f"{instance}/access", f"{instance}/ci{mig.compute_instance}/access"


def _openable_capabilities(device: Device, mig: MigDevice, nodes: DeviceNodes) -> tuple[str, ...]:
    return tuple(name for name in capabilities_of(device, mig) if name in nodes.capabilities)


def _specs(paths: Sequence[str], config: PluginConfig) -> tuple[DeviceSpec, ...]:
    return tuple(DeviceSpec(_below(config.dev_root, path), path) for path in paths)


def _channel(number: int, config: PluginConfig, nodes: DeviceNodes) -> DeviceSpec | None:
    """The channel's node: the driver's own where its /dev is another one, else the host's."""
    path = f"{IMEX_FOLDER}/channel{number}"
    if path in nodes.driver and config.dev_root != "/":
        return DeviceSpec(_below(config.dev_root, path), path)
    return DeviceSpec(path, path) if path in nodes.own or path in nodes.driver else None


def _below(root: str, path: str) -> str:
    return root.rstrip("/") + path
