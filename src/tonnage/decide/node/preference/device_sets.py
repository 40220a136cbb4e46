"""The devices of a node, how each pair of them is joined, what a set of them is worth, and the best set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from tonnage.decide.node.preference.links import link_matrix, links_by_ends, nvlinks_between, pci_level
from tonnage.decide.node.preference.whole_devices import (
    DeviceTopology,
    finished,
    prefer_whole,
    topology_of,
    worked_out,
)
from tonnage.model.devices.inventory import Device
from tonnage.model.devices.links import NVSWITCH, PCI_WORDS, Link

_ALWAYS_EXACT: Final = 8
"""Devices of which the best set is worked out in 2 ms."""
_AMD: Final = ("AMD", "Advanced Micro Devices", "Instinct")


@dataclass(frozen=True, slots=True)
class GpuTopology:
    """`devices` in index order; `ways[i][j]` is how the i-th reaches the j-th, in nvidia-smi's words.

    `nvlinks[i][j]` counts NVLinks (or AMD's XGMI links) between the two, `switched[i]` those from the i-th to
    switches.
    """

    devices: tuple[Device, ...]
    ways: tuple[tuple[str, ...], ...]
    nvlinks: tuple[tuple[int, ...], ...]
    switched: tuple[int, ...]
    topology: DeviceTopology

    @property
    def indices(self) -> tuple[int, ...]:
        """Of the devices, lowest first."""
        return tuple(device.index for device in self.devices)

    def tenths(self, i: int, j: int) -> int:
        """Bandwidth between two places, in tenths of GB/s one way."""
        return self.topology.matrix.best[i][j]


@dataclass(frozen=True, slots=True)
class Joined:
    """How well a set is joined: its slowest pair (indices), how that is joined, the sum over its pairs.

    Bandwidths in tenths of GB/s one way; `near` is the sum as if there were no fast links.
    """

    indices: tuple[int, ...]
    pair: tuple[int, int] | None
    way: str
    slowest: int
    total: int
    near: int
    numa_nodes: tuple[int, ...]

    @property
    def worth(self) -> tuple[int, int, int]:
        """What sets of one size on one board compare by. Source: `objective`, first rule."""
        return self.slowest, self.total, self.near


def board_of(devices: Iterable[Device], links: Iterable[Link]) -> GpuTopology:
    """The board of these devices; never fails, whatever the links say."""
    order = tuple(sorted(devices, key=lambda device: (device.index, device.uuid)))
    by_ends = links_by_ends(links)
    nvlinks = tuple(
        tuple(0 if left is other else nvlinks_between(left.uuid, other.uuid, by_ends) for other in order)
        for left in order
    )
    ways = tuple(
        tuple(
            _way(left, other, nvlinks[i][j], PCI_WORDS[pci_level(left, other, by_ends)])
            for j, other in enumerate(order)
        )
        for i, left in enumerate(order)
    )
    up = (by_ends.get((device.uuid, NVSWITCH)) for device in order)
    switched = tuple(link.nvlinks if link is not None else 0 for link in up)
    return GpuTopology(order, ways, nvlinks, switched, topology_of(link_matrix(order, by_ends.values())))


def _way(left: Device, other: Device, nvlinks: int, pci: str) -> str:
    if left is other:
        return "X"
    if nvlinks:
        return "XGMI" if all(is_amd(device) for device in (left, other)) else f"NV{nvlinks}"
    return pci


def is_amd(device: Device) -> bool:
    """Whether a device's fast links are XGMI."""
    return device.product.startswith(_AMD)


def joined(board: GpuTopology, indices: Iterable[int]) -> Joined:
    """How well the devices with these indices are joined; indices that the board lacks do not count."""
    chosen = frozenset(indices)
    places = [place for place, device in enumerate(board.devices) if device.index in chosen]
    pairs = list(combinations(places, 2))
    slowest = min(pairs, key=lambda pair: board.tenths(*pair), default=None)
    numa = {board.devices[place].numa_node for place in places}
    return Joined(
        indices=tuple(board.devices[place].index for place in places),
        pair=(board.devices[slowest[0]].index, board.devices[slowest[1]].index) if slowest else None,
        way=board.ways[slowest[0]][slowest[1]] if slowest else "",
        slowest=board.tenths(*slowest) if slowest else 0,
        total=sum(board.tenths(*pair) for pair in pairs),
        near=sum(board.topology.matrix.pci[i][j] for i, j in pairs),
        numa_nodes=tuple(sorted(node for node in numa if node is not None)),
    )


def best_set(
    board: GpuTopology, size: int, among: Sequence[int] | None = None, *, thorough: bool = False
) -> Joined:
    """The best `size` devices of those with the indices `among` (default: all), or as many as there are.

    Up to 8 devices always the best; of more only when `thorough`, which may take half a second for 16.
    """
    free = [d.uuid for d in board.devices if among is None or d.index in among]
    topology = board.topology
    if len(board.devices) <= _ALWAYS_EXACT or thorough:
        topology = finished(worked_out(topology))
    chosen = set(prefer_whole(topology, free, (), size))
    return joined(board, (device.index for device in board.devices if device.uuid in chosen))
