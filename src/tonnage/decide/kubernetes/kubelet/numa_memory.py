"""memorymanager, static policy: from which NUMA nodes a Guaranteed container gets its memory.

Source: Kubernetes 1.36, pkg/kubelet/cm/memorymanager/policy_static.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tonnage.decide.kubernetes.kubelet.topology_manager import Hint, nodes_of, subsets_of


@dataclass(frozen=True, slots=True)
class MemoryCell:
    """A NUMA node's memory in bytes by kind (`memory`, `hugepages-2Mi`), as the manager accounts for it.

    `group` are the NUMA nodes with which it serves containers together; `assignments`, how many it serves.
    """

    allocatable: Mapping[str, int]
    free: Mapping[str, int]
    group: frozenset[int] = frozenset()
    assignments: int = 0


def memory_hints(cells: Mapping[int, MemoryCell], sizes: Mapping[str, int]) -> tuple[Hint, ...] | None:
    """The sets of NUMA nodes that could serve all that a container wants; None where it wants nothing.

    A node that serves containers alone is in no larger set; one that serves with others only in that set.
    """
    if not any(sizes.values()):
        return None
    nodes = sorted(cells)
    fewest, masks = len(nodes), []
    for mask in subsets_of(nodes):
        group = nodes_of(mask)
        members = [cells[node] for node in group]
        if any(_sum((cell.allocatable for cell in members), name) < size for name, size in sizes.items()):
            continue
        fewest = min(fewest, len(group))
        if _is_open(cells, group) and all(
            _sum((cell.free for cell in members), name) >= size for name, size in sizes.items()
        ):
            masks.append(mask)
    return tuple(Hint(mask, mask.bit_count() == fewest) for mask in masks)


def with_memory(
    cells: Mapping[int, MemoryCell], mask: int, sizes: Mapping[str, int]
) -> dict[int, MemoryCell]:
    """The cells after a container got its memory from a set of NUMA nodes, the lowest first."""
    updated, left = dict(cells), dict(sizes)
    for node in nodes_of(mask):
        cell = updated[node]
        free = dict(cell.free)
        for name, size in left.items():
            part = min(size, free.get(name, 0))
            free[name] = free.get(name, 0) - part
            left[name] = size - part
        updated[node] = replace(
            cell, free=free, group=frozenset(nodes_of(mask)), assignments=cell.assignments + 1
        )
    return updated


def _is_open(cells: Mapping[int, MemoryCell], group: list[int]) -> bool:
    if len(group) == 1:
        return len(cells[group[0]].group) <= 1
    return all(cells[node].assignments == 0 or cells[node].group == frozenset(group) for node in group)


def _sum(amounts: Iterable[Mapping[str, int]], name: str) -> int:
    return sum(row.get(name, 0) for row in amounts)
