"""How the devices of a node reach one another: what the driver states, and what that amounts to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

NVSWITCH: Final = ""
"""As the target of a Link: the NVSwitches of the board."""


class PciLevel(IntEnum):
    """The nearest thing above two devices in the PCI tree; nearer is less.

    Source: nvmlGpuTopologyLevel_t, whose numbers these are. BOARD is a card with two GPUs; nvidia-smi calls
    SWITCH PIX, SWITCHES PXB, HOST_BRIDGE PHB, NUMA_NODE NODE and SYSTEM SYS.
    """

    BOARD = 0
    SWITCH = 10
    SWITCHES = 20
    HOST_BRIDGE = 30
    NUMA_NODE = 40
    SYSTEM = 50


PCI_WORDS: Final[Mapping[PciLevel, str]] = MappingProxyType(
    {
        PciLevel.BOARD: "BOARD",
        PciLevel.SWITCH: "PIX",
        PciLevel.SWITCHES: "PXB",
        PciLevel.HOST_BRIDGE: "PHB",
        PciLevel.NUMA_NODE: "NODE",
        PciLevel.SYSTEM: "SYS",
    }
)
"""nvidia-smi's words, which has none for two GPUs on one board."""


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of how `source` reaches `target` (uuids), as the driver of `source` states it.

    `nvlinks` counts active NVLinks that end at `target`, or at a switch when that is NVSWITCH. `level` is
    None where the driver does not say. What is not stated at all is reached through PCI.
    """

    source: str
    target: str
    nvlinks: int = 0
    level: PciLevel | None = None


Row = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LinkMatrix:
    """Bandwidth of every pair of devices, in tenths of GB/s one way; symmetric, 0 from a device to itself.

    Devices are in index order, lowest first. `best` is over the best way that there is, `pci` without NVLink.
    """

    uuids: tuple[str, ...] = ()
    best: tuple[Row, ...] = ()
    pci: tuple[Row, ...] = ()
