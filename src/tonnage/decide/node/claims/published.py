"""The devices that claims can have, with NVIDIA's names, attributes and capacities.

Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.5, cmd/gpu-kubelet-plugin; standard attributes of
resource.kubernetes.io.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tonnage.decide.node.advertise import describe
from tonnage.decide.node.claims.claimed import claimed_devices
from tonnage.decide.node.claims.engines import engines_of, most_engines, size_of
from tonnage.decide.node.claims.nvlink_groups import NVLINK_GROUP, nvlink_groups
from tonnage.decide.node.claims.partitions import part_name, partitions_of
from tonnage.decide.node.claims.quantities import quantity_of
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.labels.gpu import family_of
from tonnage.model.devices.claims import Partition, PublishedDevice, ShareRule
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import HoldKind, PluginConfig

_BY_MEMORY: Final = "memory"
_MIB: Final = "1Mi"
_MOST_BYTES: Final = 64
"""Of an attribute's text."""
_NUMBERS: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?")
_BRANDS: Final = (("Tesla", "Tesla"), ("Quadro", "Quadro"), ("TITAN", "Titan"), ("GeForce", "GeForce"))
NO_ROOTS: Final[Mapping[str, str]] = MappingProxyType({})


def published_devices(
    inventory: Inventory,
    config: PluginConfig,
    roots: Mapping[str, str] = NO_ROOTS,
    made: Set[Partition] = frozenset(),
) -> tuple[PublishedDevice, ...]:
    """Every device that is offered as claims, by its GPU's minor number: GPUs, or the MIG devices of a GPU.

    `roots` has PCIe roots by PCI address; `made` are MIG devices that were made for claims.
    """
    published: list[PublishedDevice] = []
    groups = nvlink_groups(inventory)
    for device in sorted(claimed_devices(inventory, config), key=_order):
        gpu = _published(device, inventory, roots)
        if gpu.unfit or not device.mig_enabled:
            if group := groups.get(device.uuid):
                gpu = replace(gpu, texts={**gpu.texts, NVLINK_GROUP: group})
            published.append(_shared(gpu, device.memory_mib, config.claim_shares))
        elif config.partitioned:
            parts = [_part(device, mig, gpu) for mig in device.migs]
            published += partitions_of(device, gpu, parts, made)
        elif device.migs:
            migs = sorted(device.migs, key=lambda mig: (mig.placement or (0, 0), mig.index))
            published += (
                _shared(_part(device, mig, gpu), mig.memory_mib, config.claim_shares) for mig in migs
            )
        else:
            published.append(replace(gpu, unfit="MIG is enabled, and it has no MIG devices"))
    return tuple(published)


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


def _order(device: Device) -> tuple[bool, int]:
    return (False, device.index) if device.minor is None else (True, device.minor)


def _published(device: Device, inventory: Inventory, roots: Mapping[str, str]) -> PublishedDevice:
    """A GPU as a whole."""
    address = pci_address(device.pci_bus_id)
    texts = {
        "type": "gpu",
        "uuid": device.uuid,
        "productName": device.product,
        "brand": brand_of(device.product),
        "architecture": _architecture(device.compute_capability),
        "addressingMode": device.addressing_mode,
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
        {"memory": quantity_of(device.memory_mib), **most_engines(device)},
        healthy=device.healthy,
        reason=device.reason,
        unfit="" if device.minor is not None else "its minor number is unknown, by which claims name it",
    )


def _shared(whole: PublishedDevice, memory_mib: int, shares: str) -> PublishedDevice:
    """A device of which several claims may have parts: one that asks for no memory has all of it, or none.

    A claim would take all of a capacity without a rule. What only says how large the device is has one by
    which it takes none.

    Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.5, consumableShares.
    """
    if not shares:
        return whole
    rules = {name: ShareRule("0", "0", "1") for name, amount in whole.capacity.items() if amount != "0"}
    rules["memory"] = ShareRule("0", "0", _MIB)
    if shares == _BY_MEMORY:
        rules["memory"] = ShareRule(quantity_of(memory_mib), _MIB, _MIB)
    if not shares.isdecimal():
        return replace(whole, shares=rules)
    capacity = {**whole.capacity, "shares": shares}
    return replace(whole, capacity=capacity, shares={**rules, "shares": ShareRule("1", "1", "1")})


def _part(device: Device, mig: MigDevice, gpu: PublishedDevice) -> PublishedDevice:
    """A MIG device that exists."""
    unfit = ""
    if mig.placement is None or mig.profile_number is None:
        unfit = "its place on the GPU is unknown, by which claims name it; the agent needs --mig"
    elif mig.profile.partition("g.")[0].partition("c.")[1]:
        unfit = "it is a part of a GPU instance, and claims name whole ones"
    start, slices = mig.placement or (0, 0)
    capacity = {"memory": quantity_of(mig.memory_mib)}
    size = mig if mig.multiprocessors else size_of(device, mig.profile_number)
    capacity |= engines_of(size) if size is not None else {}
    capacity |= {f"memorySlice{place}": "1" for place in range(start, start + slices)}
    texts = {"type": "mig", "uuid": mig.uuid, "parentUUID": device.uuid, "profile": mig.profile}
    return replace(
        gpu,
        name=part_name(gpu, mig.profile, mig.profile_number, start),
        uuid=mig.uuid,
        texts={**gpu.texts, **texts},
        capacity=capacity,
        healthy=device.healthy and mig.healthy,
        reason=mig.reason or device.reason,
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
