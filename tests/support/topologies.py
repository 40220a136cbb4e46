"""Nodes whose GPUs are joined as those of well-known machines are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tonnage.decide.node.preference.links import link_matrix
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.links import NVSWITCH, Link, LinkMatrix, PciLevel

CUBE_MESH = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2,
    (2, 6): 1, (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip
"""NVLinks between the GPUs of a DGX-1 with V100. Source: nvidia-smi topo of a p3.16xlarge; 6 links each."""


def devices(count: int, capability: str = "8.0", *, numa_nodes: int = 2) -> tuple[Device, ...]:
    """GPU-0, GPU-1 and so on, spread over NUMA nodes in order."""
    return tuple(
        Device(f"GPU-{i}", i, "GPU", 1, capability, numa_node=i * numa_nodes // count) for i in range(count)
    )


def both(pairs: Mapping[tuple[int, int], int]) -> tuple[Link, ...]:
    """Straight NVLinks, each as both of its ends see it."""
    return tuple(
        Link(f"GPU-{a}", f"GPU-{b}", count) for (i, j), count in pairs.items() for a, b in ((i, j), (j, i))
    )


def levels(groups: Iterable[Iterable[int]], level: PciLevel) -> tuple[Link, ...]:
    """The same PCI level between all GPUs of a group."""
    return tuple(
        Link(f"GPU-{i}", f"GPU-{j}", level=level)
        for group in map(tuple, groups)
        for i in group
        for j in group
    )


def dgx1() -> Inventory:
    return Inventory(devices(8, "7.0"), links=both(CUBE_MESH))


def nvswitch(count: int, capability: str = "9.0", links: int = 18) -> Inventory:
    return Inventory(
        devices(count, capability), links=tuple(Link(f"GPU-{i}", NVSWITCH, links) for i in range(count))
    )


def pci_only() -> Inventory:
    """Two sockets, each with two PCIe switches of two GPUs."""
    return Inventory(devices(8), links=levels([(0, 1), (2, 3), (4, 5), (6, 7)], PciLevel.SWITCH))


def bridged_pairs(count: int = 4) -> Inventory:
    """PCIe cards with NVLink bridges over every two of them."""
    return Inventory(devices(count), links=both({(i, i + 1): 12 for i in range(0, count, 2)}))


def asymmetric() -> Inventory:
    """A bridge of which one side sees less, one that only one side sees, and one that is whole."""
    seen = (Link("GPU-0", "GPU-1", 12), Link("GPU-1", "GPU-0", 8), Link("GPU-2", "GPU-3", 12))
    return Inventory(devices(6), links=(*seen, *both({(4, 5): 12})))


def partitions(gpus: int, each: int) -> Inventory:
    """GPUs that are split into devices of their own: those of one GPU are on one board."""
    groups = [range(gpu * each, (gpu + 1) * each) for gpu in range(gpus)]
    return Inventory(devices(gpus * each), links=levels(groups, PciLevel.BOARD))


TOPOLOGIES = {
    "DGX-1 with V100": dgx1(),
    "DGX H100": nvswitch(8),
    "PCIe only": pci_only(),
    "bridged pairs": bridged_pairs(),
    "six cards, links seen from one side": asymmetric(),
}
SIXTEEN = {
    "two cube meshes": Inventory(
        devices(16, "7.0"), links=both(CUBE_MESH | {(i + 8, j + 8): n for (i, j), n in CUBE_MESH.items()})
    ),
    "DGX-2": nvswitch(16, "7.0", 6),
    "eight bridged pairs": bridged_pairs(16),
    "four by four partitions": partitions(4, 4),
}


def matrix_of(inventory: Inventory) -> LinkMatrix:
    return link_matrix(inventory.devices, inventory.links)
