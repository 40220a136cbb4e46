"""What nodes are, as columns: one row a node, in the order of their names. Nothing here ever changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.ma
from numpy.typing import NDArray

from tonnage.model.cluster import Node
from tonnage.model.selectors import Taint

Mask: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int32]
Amounts: TypeAlias = NDArray[np.int64]

MOST: Final = 2**55
"""Larger amounts are cut down to this, so that a hundred times as much still is a 64-bit number."""


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """One label of all nodes: `codes` are indices into `values`, -1 where a node lacks the label."""

    codes: Codes
    values: tuple[str, ...]
    code_of: Mapping[str, int]

    def where(self, accepted: Mask, *, absent: bool) -> Mask:
        """Rows whose value is accepted (one flag a value), and those without the label if `absent`."""
        found: Mask = np.append(accepted, absent)[self.codes]  # -1 takes the last
        return found

    def among(self, values: Iterable[str]) -> Mask:
        """Rows that have one of the values."""
        accepted = np.zeros(len(self.values), bool)
        accepted[[self.code_of[value] for value in values if value in self.code_of]] = True
        return self.where(accepted, absent=False)


@dataclass(slots=True)
class Columns:
    """Nodes in name order. Columns of labels and images are made when the first pod asks."""

    nodes: tuple[Node, ...]
    names: tuple[str, ...] = field(init=False)
    row_of: dict[str, int] = field(init=False)
    cordoned: Mask = field(init=False)
    taint_sets: tuple[tuple[Taint, ...], ...] = field(init=False)
    """Each combination of taints that occurs, and by row which it is."""
    taint_codes: Codes = field(init=False)
    _labels: dict[str, LabelColumn] = field(init=False, default_factory=dict)
    _allocatable: dict[str, Amounts] = field(init=False)
    _capacity: dict[str, Amounts] = field(init=False)
    _nothing: Amounts = field(init=False)
    _images: dict[str, tuple[int, Mask]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = tuple(sorted(self.nodes, key=lambda node: node.name))
        self.names = tuple(node.name for node in self.nodes)
        self.row_of = {name: row for row, name in enumerate(self.names)}
        self.cordoned = np.fromiter((node.unschedulable for node in self.nodes), bool, len(self.nodes))
        known: dict[tuple[Taint, ...], int] = {}
        self.taint_codes = self._column(known.setdefault(node.taints, len(known)) for node in self.nodes)
        self.taint_sets = tuple(known)
        self._allocatable = _by_name([node.allocatable for node in self.nodes])
        self._capacity = _by_name([node.capacity for node in self.nodes])
        self._nothing = np.zeros(len(self.nodes), np.int64)

    def __len__(self) -> int:
        return len(self.nodes)

    def label(self, key: str) -> LabelColumn:
        """The column of a label."""
        column = self._labels.get(key)
        if column is None:
            known: dict[str, int] = {}
            values = (node.labels.get(key) for node in self.nodes)
            codes = self._column(-1 if v is None else known.setdefault(v, len(known)) for v in values)
            column = self._labels[key] = LabelColumn(codes, tuple(known), known)
        return column

    def allocatable(self, resource: str) -> Amounts:
        """How much of a resource each node has for pods; what it does not name it has none of."""
        column = self._allocatable.get(resource)
        return self._nothing if column is None else column

    def capacity(self, resource: str) -> Amounts:
        """How much of a resource each node has, reserved or not."""
        column = self._capacity.get(resource)
        return self._nothing if column is None else column

    def image(self, name: str) -> tuple[int, Mask]:
        """Bytes of an image (full name) as the first node that has it says, and which nodes have it."""
        found = self._images.get(name)
        if found is None:
            sizes = [node.images.get(name) for node in self.nodes]
            size = next((size for size in sizes if size is not None), 0)
            mask = np.fromiter((size is not None for size in sizes), bool, len(sizes))
            found = self._images[name] = (size, mask)
        return found

    def _column(self, codes: Iterable[int]) -> Codes:
        return np.fromiter(codes, np.int32, len(self.nodes))


def _by_name(rows: Sequence[Mapping[str, int]]) -> dict[str, Amounts]:
    """A column a resource; where a node does not name it, 0."""
    found: dict[str, list[int]] = {}
    for row, amounts in enumerate(rows):
        for name, amount in amounts.items():
            if name not in found:
                found[name] = [0] * len(rows)
            found[name][row] = min(amount, MOST)
    return {name: np.array(column, np.int64) for name, column in found.items()}
