"""Node families: how the GPUs of a node are joined, in a word, and nodes that differ in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tonnage.decide.node.preference.device_sets import GpuTopology, board_of, is_amd
from tonnage.model.devices.inventory import Device
from tonnage.model.devices.links import NVSWITCH, Link
from tonnage.model.name_lists import listed
from tonnage.model.node.gpu_status import GpuDevice, GpuStatus


class FamilyKind(StrEnum):
    """What joins the GPUs of a node."""

    ALONE = "alone"
    NVSWITCH = "nvswitch"
    NVLINK = "nvlink"
    NVLINK_GROUPS = "nvlink-groups"
    XGMI = "xgmi"
    XGMI_GROUPS = "xgmi-groups"
    PCI = "pci"


@dataclass(frozen=True, slots=True)
class LinkFamily:
    """`links` are those of one GPU (0: none); `groups` the indices that fast links join, where not all."""

    kind: FamilyKind
    products: tuple[str, ...]
    gpus: int
    links: int = 0
    groups: tuple[tuple[int, ...], ...] = ()

    @property
    def summary(self) -> str:
        """In a few words.

        >>> LinkFamily(FamilyKind.NVSWITCH, ("H100",), 8, 18).summary
        'NVSwitch, 18 NVLinks each'
        """
        groups = ", ".join("-".join(map(str, group)) for group in self.groups)
        match self.kind:
            case FamilyKind.ALONE:
                return "one GPU"
            case FamilyKind.NVSWITCH:
                return f"NVSwitch, {self.links} NVLinks each"
            case FamilyKind.NVLINK:
                return "NVLink between all"
            case FamilyKind.NVLINK_GROUPS:
                return f"NVLink within {groups}"
            case FamilyKind.XGMI:
                return "XGMI between all"
            case FamilyKind.XGMI_GROUPS:
                return f"XGMI within {groups}"
            case FamilyKind.PCI:
                return "PCIe only"


_MOST_DEVICES: Final = 256
Boards = dict[tuple[GpuDevice, ...], GpuTopology]


def numbered(status: GpuStatus) -> tuple[GpuDevice, ...]:
    """The devices of a node that have an index of their own, lowest first; of very many only the first."""
    owners = Counter(device.index for device in status.devices)
    ordered = sorted(
        (d.index, d.uuid, place)
        for place, d in enumerate(status.devices)
        if d.index is not None and owners[d.index] == 1
    )
    return tuple(status.devices[place] for _, _, place in ordered[:_MOST_DEVICES])


def usable_indices(status: GpuStatus) -> tuple[int, ...]:
    """Indices of the devices of `numbered` that a pod may be given whole."""
    usable = (device for device in numbered(status) if device.healthy and not device.parts)
    return tuple(device.index for device in usable if device.index is not None)


def board_of_status(devices: Iterable[GpuDevice], boards: Boards) -> GpuTopology:
    """The board that a node's agent describes; nodes that are built alike share one in `boards`."""
    alike = tuple(_identity(device) for device in devices)
    board = boards.get(alike)
    if board is None:
        board = boards[alike] = board_of(map(_device, alike), links_of(alike))
    return board


def _identity(device: GpuDevice) -> GpuDevice:
    """What the board follows from: neither uuids nor what changes from day to day."""
    return GpuDevice(
        f"GPU-{device.index}",
        device.product,
        device.index,
        compute_capability=device.compute_capability,
        numa_node=device.numa_node,
        links=device.links,
    )


def _device(device: GpuDevice) -> Device:
    index = device.index or 0
    return Device(
        device.uuid, index, device.product, 0, device.compute_capability, numa_node=device.numa_node
    )


def links_of(devices: Iterable[GpuDevice]) -> Iterator[Link]:
    """Every link that the devices state, one direction each."""
    listed = tuple(devices)
    uuids = {device.index: device.uuid for device in listed}
    for device in listed:
        for links in device.links:
            targets = [NVSWITCH] if links.switches else [uuids[peer] for peer in links.peers if peer in uuids]
            for target in targets:
                yield Link(device.uuid, target, links.nvlinks, links.level)


def family_of(board: GpuTopology) -> LinkFamily:
    """The family of a node with this board."""
    products = tuple(sorted({device.product for device in board.devices}))
    count = len(board.devices)
    if count <= 1:
        return LinkFamily(FamilyKind.ALONE, products, count)
    if all(board.switched):
        return LinkFamily(FamilyKind.NVSWITCH, products, count, min(board.switched))
    amd = all(is_amd(device) for device in board.devices)
    groups = tuple(_groups(board))
    if not groups:
        return LinkFamily(FamilyKind.PCI, products, count)
    links = max(sum(row) for row in board.nvlinks)
    everyone = all(n for i, row in enumerate(board.nvlinks) for j, n in enumerate(row) if i != j)
    if everyone:
        return LinkFamily(FamilyKind.XGMI if amd else FamilyKind.NVLINK, products, count, links)
    return LinkFamily(
        FamilyKind.XGMI_GROUPS if amd else FamilyKind.NVLINK_GROUPS, products, count, links, groups
    )


def _groups(board: GpuTopology) -> Iterator[tuple[int, ...]]:
    """Indices that fast links join, straight or over others; GPUs without such links stand in none."""
    left = set(range(len(board.devices)))
    while left:
        group, todo = set[int](), [min(left)]
        while todo:
            place = todo.pop()
            if place not in group:
                group.add(place)
                todo += [other for other, count in enumerate(board.nvlinks[place]) if count]
        left -= group
        if len(group) > 1:
            yield tuple(board.devices[place].index for place in sorted(group))


def pools_that_differ(rows: Iterable[tuple[str, str, str, LinkFamily]]) -> Iterator[str]:
    """TOP-1: families that one resource name offers alike, though they are not one pool.

    A row is a node, a resource that it offers, its product label, its family; one GPU alone does not count.
    """
    by_resource: dict[str, dict[tuple[str, LinkFamily], list[str]]] = {}
    for node, resource, product, family in rows:
        if resource and family.kind is not FamilyKind.ALONE:
            by_resource.setdefault(resource, {}).setdefault((product, family), []).append(node)
    for resource, families in sorted(by_resource.items()):
        if len({(family.kind, family.links, family.groups) for _, family in families}) < 2:
            continue
        text = "; ".join(
            f"{listed(sorted(nodes), 3)} ({family.summary})"
            for (_, family), nodes in sorted(families.items(), key=lambda entry: min(entry[1]))
        )
        products = [product for product, _ in families]
        are_distinct = "" not in products and len(set(products)) == len(products)
        how = "the product label tells them apart" if are_distinct else "label them by their links"
        yield f"{resource} is offered by nodes that are not one pool: {text}; {how}: let pods select by it"
