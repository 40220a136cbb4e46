"""The devices that claims can have, with NVIDIA's names, attributes and capacities.

Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.5, cmd/gpu-kubelet-plugin; standard attributes of
resource.kubernetes.io.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tonnage.decide.node.advertise import describe
from tonnage.decide.node.claims.claimed import claimed_devices
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.labels.gpu import family_of
from tonnage.model.devices.claims import PublishedDevice
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.sharing import HoldKind, PluginConfig

_MOST_BYTES: Final = 64
"""Of an attribute's text."""
_NUMBERS: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?")
_BRANDS: Final = (("Tesla", "Tesla"), ("Quadro", "Quadro"), ("TITAN", "Titan"), ("GeForce", "GeForce"))
_SUFFIXES: Final = ("Mi", "Gi", "Ti")
NO_ROOTS: Final[Mapping[str, str]] = MappingProxyType({})


def published_devices(
    inventory: Inventory, config: PluginConfig, roots: Mapping[str, str] = NO_ROOTS
) -> tuple[PublishedDevice, ...]:
    """Every GPU that is offered as claims, by its minor number. `roots` has PCIe roots by PCI address."""
    devices = (_published(device, inventory, roots) for device in claimed_devices(inventory, config))
    return tuple(sorted(devices, key=lambda device: (len(device.name), device.name)))


def available(devices: Iterable[PublishedDevice], held: DeviceHolds) -> tuple[PublishedDevice, ...]:
    """The same, where those that a container still has as an extended resource are unfit, and by whom.

    What claims hold stays published: the scheduler knows of that.
    """
    by_uuid = {
        use_uuid: hold
        for use_uuid, uses in held.uses().items()
        for hold in uses.values()
        if hold.kind is HoldKind.DEVICE_PLUGIN
    }
    return tuple(
        replace(device, unfit=device.unfit or f"held as {describe(by_uuid[device.uuid])}")
        if device.uuid in by_uuid
        else device
        for device in devices
    )


def pci_address(pci_bus_id: str) -> str:
    """A PCI address as the kernel writes it.

    >>> pci_address("00000000:8A:00.0")
    '0000:8a:00.0'
    """
    domain, _, rest = pci_bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest else ""


def quantity_of(mib: int) -> str:
    """Memory as Kubernetes writes it.

    >>> quantity_of(40960), quantity_of(46068)
    ('40Gi', '46068Mi')
    """
    suffix = 0
    while mib and mib % 1024 == 0 and suffix < len(_SUFFIXES) - 1:
        mib, suffix = mib // 1024, suffix + 1
    return f"{mib}{_SUFFIXES[suffix]}"


def version_of(text: str) -> str:
    """A version with three numbers, as attributes have it; empty if it is none.

    >>> version_of("580.65.06"), version_of("13.0"), version_of("8.0"), version_of("r580")
    ('580.65.6', '13.0.0', '8.0.0', '')
    """
    match = _NUMBERS.fullmatch(text)
    return ".".join(str(int(part or 0)) for part in match.groups()) if match else ""


def brand_of(product: str) -> str:
    """NVML's brand of a product, by its name.

    >>> brand_of("NVIDIA A100-SXM4-40GB"), brand_of("Tesla T4")
    ('Nvidia', 'Tesla')
    """
    return next((brand for word, brand in _BRANDS if word in product), "Nvidia")


def _published(device: Device, inventory: Inventory, roots: Mapping[str, str]) -> PublishedDevice:
    unfit = ""
    if device.minor is None:
        unfit = "its minor number is unknown, by which claims name it"
    elif device.mig_enabled:
        unfit = "MIG is enabled, and MIG devices are not offered as claims yet"
    address = pci_address(device.pci_bus_id)
    texts = {
        "type": "gpu",
        "uuid": device.uuid,
        "productName": device.product,
        "brand": brand_of(device.product),
        "architecture": _architecture(device.compute_capability),
        "resource.kubernetes.io/pciBusID": address,
        "resource.kubernetes.io/pcieRoot": roots.get(address, ""),
    }
    versions = {
        "cudaComputeCapability": version_of(device.compute_capability),
        "driverVersion": version_of(inventory.driver_version),
        "cudaDriverVersion": version_of(inventory.cuda_version),
    }
    local = device.numa_node is not None and device.numa_node >= 0
    return PublishedDevice(
        f"gpu-{device.minor}" if device.minor is not None else f"gpu-{device.index}",
        device.uuid,
        {key: _cut(text) for key, text in texts.items() if text},
        {key: text for key, text in versions.items() if text},
        {"resource.kubernetes.io/numaNode": device.numa_node or 0} if local else {},
        {"memory": quantity_of(device.memory_mib)},
        healthy=device.healthy,
        reason=device.reason,
        unfit=unfit,
    )


def _architecture(capability: str) -> str:
    """As NVIDIA's driver writes it: `Ampere`, `Ada Lovelace`."""
    version = version_of(capability)
    if not version:
        return ""
    major, minor, _ = map(int, version.split("."))
    family = family_of(major, minor)
    return "" if family == "undefined" else " ".join(word.title() for word in family.split("-"))


def _cut(text: str) -> str:
    return text.encode()[:_MOST_BYTES].decode(errors="ignore")
