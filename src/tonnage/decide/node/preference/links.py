"""What the links between devices amount to: one bandwidth for every pair."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tonnage.model.devices.inventory import Device
from tonnage.model.devices.links import NVSWITCH, Link, LinkMatrix, PciLevel

NVLINK_TENTHS: Final = ((100, 401), (90, 206), (87, 200), (86, 120), (80, 200), (70, 200), (60, 180))
"""Of one NVLink in tenths of GB/s one way, by the least compute capability (times ten) that has it.

What NCCL plans with; wire rates are 20 to 50 GB/s. Source: NCCL src/graph/topo.h (SM60 to SM100_NVLINK_BW and
ncclTopoNVLinkBw, which gives a chip that it does not know 20.0).
"""
_UNKNOWN_CHIP: Final = 200

PCI_TENTHS: Final[Mapping[PciLevel, int]] = MappingProxyType(
    {
        PciLevel.BOARD: 121,
        PciLevel.SWITCH: 120,
        PciLevel.SWITCHES: 119,
        PciLevel.HOST_BRIDGE: 100,
        PciLevel.NUMA_NODE: 99,
        PciLevel.SYSTEM: 60,
    }
)
"""Through PCI, in tenths of GB/s one way.

NCCL's figures for PCIe 3.0 x16 are 12.0 through switches, 10.0 through a processor (its overhead of 6/5 on
peer traffic) and 6.0 between sockets (the least of its figures). Levels that NCCL takes for equal keep the
order of nvidia-smi's by a tenth. A later PCIe is faster in all of them alike, and the order is what decides.
Source: NCCL src/graph/topo.h (PCI_BW, INTEL_P2P_OVERHEAD, BDW_QPI_BW); nvidia-smi topo.
"""

MOST_TENTHS: Final = (1 << 14) - 1
"""No pair counts for more: 36 links, the most that NVML knows, of the fastest kind are 14,436."""
_CAPABILITY: Final = re.compile(r"([0-9]{1,3})\.([0-9])")


def link_matrix(devices: Sequence[Device], links: Iterable[Link]) -> LinkMatrix:
    """The bandwidth between all of `devices`; never fails, whatever the links say.

    A pair's way is its NVLinks (straight ones, or through the switches as many as the one with fewer has) or
    PCI, whichever is faster. Where the two directions differ, the slower one counts for both; NVLinks that
    one side knows nothing of do not count. Without a PCI level, two devices of one NUMA node are NUMA_NODE,
    others SYSTEM.
    """
    by_ends = links_by_ends(links)
    order = sorted(devices, key=lambda device: (device.index, device.uuid))
    per_link = [_per_link(device) for device in order]
    best = [[0] * len(order) for _ in order]
    pci = [[0] * len(order) for _ in order]
    for i, left in enumerate(order):
        for j in range(i):
            slow = PCI_TENTHS[pci_level(left, order[j], by_ends)]
            fast = nvlinks_between(left.uuid, order[j].uuid, by_ends) * min(per_link[i], per_link[j])
            pci[i][j] = pci[j][i] = slow
            best[i][j] = best[j][i] = min(MOST_TENTHS, max(slow, fast))
    uuids = tuple(device.uuid for device in order)
    return LinkMatrix(uuids, tuple(map(tuple, best)), tuple(map(tuple, pci)))


LinksByEnds = Mapping[tuple[str, str], Link]
"""Links by source and target."""


def links_by_ends(links: Iterable[Link]) -> LinksByEnds:
    """The links by their two ends; those from a device to itself are none."""
    return {(link.source, link.target): link for link in links if link.source != link.target}


def pci_level(device: Device, other: Device, by_ends: LinksByEnds) -> PciLevel:
    """What is nearest above two devices; where no driver says, it follows from their NUMA nodes."""
    stated = [by_ends.get((device.uuid, other.uuid)), by_ends.get((other.uuid, device.uuid))]
    levels = [link.level for link in stated if link is not None and link.level is not None]
    if levels:
        return max(levels)
    same = device.numa_node is not None and device.numa_node == other.numa_node
    return PciLevel.NUMA_NODE if same else PciLevel.SYSTEM


def nvlinks_between(uuid: str, other: str, by_ends: LinksByEnds) -> int:
    """How many NVLinks join the two, straight or through switches."""
    straight = _fewer(by_ends, (uuid, other), (other, uuid))
    return max(straight, _fewer(by_ends, (uuid, NVSWITCH), (other, NVSWITCH)))


def _fewer(by_ends: LinksByEnds, here: tuple[str, str], there: tuple[str, str]) -> int:
    link, other = by_ends.get(here), by_ends.get(there)
    return min(link.nvlinks, other.nvlinks) if link is not None and other is not None else 0


def _per_link(device: Device) -> int:
    match = _CAPABILITY.fullmatch(device.compute_capability)
    chip = int(match[1]) * 10 + int(match[2]) if match else 0
    return next((tenths for least, tenths in NVLINK_TENTHS if chip >= least), _UNKNOWN_CHIP)
