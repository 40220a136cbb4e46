"""What nodes are, as columns: one row a node, in the order of their names. Nothing here ever changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.ma
from numpy.typing import NDArray

from tonnage.model.kubernetes.cluster import Node
from tonnage.model.kubernetes.selectors import Labels, Taint

Mask: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int32]
Keys: TypeAlias = NDArray[np.int64 | np.int32 | np.bool_]
"""A number, or a yes or no, for each node."""
Amounts: TypeAlias = NDArray[np.int64]

MOST: Final = 2**55
"""Larger amounts are cut down to this, so that a hundred times as much still is a 64-bit number."""
_ROOM: Final = 2**62
_FEW_IMAGES: Final = 16
_FEW_TIMES: Final = 8
"""Up to so many possible numbers a row a table of them is quicker than sorting."""


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """One label of all nodes: `codes` are indices into `values`, -1 where a node lacks the label."""

    codes: Codes
    values: tuple[str, ...]
    code_of: Mapping[str, int]

    def where(self, accepted: Mask, *, absent: bool) -> Mask:
        """Rows whose value is accepted (one flag a value), and those without the label if `absent`."""
        mask: Mask = np.append(accepted, absent)[self.codes]  # -1 takes the last
        return mask

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
    by_row: NDArray[np.object_] = field(init=False)
    """The names once more, to be picked by rows."""
    row_of: dict[str, int] = field(init=False)
    cordoned: Mask = field(init=False)
    taint_sets: tuple[tuple[Taint, ...], ...] = field(init=False)
    """Each combination of taints that occurs, and by row which it is."""
    taint_codes: Codes = field(init=False)
    _labels: dict[str, LabelColumn] = field(init=False, default_factory=dict)
    _labelled: list[Labels] = field(init=False)
    _allocatable: dict[str, Amounts] = field(init=False)
    _capacity: dict[str, Amounts] = field(init=False)
    _nothing: Amounts = field(init=False)
    _images: dict[str, tuple[int, Mask]] = field(init=False, default_factory=dict)
    _holders: dict[str, list[int]] | None = field(init=False, default=None)
    """By image the rows that have it; empty until somebody asks for one."""

    def __post_init__(self) -> None:
        self.nodes = tuple(sorted(self.nodes, key=lambda node: node.name))
        self.names = tuple(node.name for node in self.nodes)
        self.by_row = np.array(self.names, object)
        self._labelled = [node.labels for node in self.nodes]
        self.row_of = {name: row for row, name in enumerate(self.names)}
        self.cordoned = np.fromiter((node.unschedulable for node in self.nodes), bool, len(self.nodes))
        codes: dict[tuple[Taint, ...], int] = {}
        self.taint_codes = self._column(codes.setdefault(node.taints, len(codes)) for node in self.nodes)
        self.taint_sets = tuple(codes)
        self._allocatable = by_resource([node.allocatable for node in self.nodes])
        self._capacity = by_resource([node.capacity for node in self.nodes])
        self._nothing = np.zeros(len(self.nodes), np.int64)

    def __len__(self) -> int:
        return len(self.nodes)

    def label(self, key: str) -> LabelColumn:
        """The column of a label."""
        column = self._labels.get(key)
        if column is None:
            code_of_value: dict[str | None, int] = {None: -1}
            values = [labels.get(key) for labels in self._labelled]
            codes = np.array(
                [code_of_value.setdefault(value, len(code_of_value) - 1) for value in values], np.int32
            )
            code_of = {value: code for value, code in code_of_value.items() if value is not None}
            column = self._labels[key] = LabelColumn(codes, tuple(code_of), code_of)
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
        cached = self._images.get(name)
        if cached is None:
            if self._holders is None and len(self._images) < _FEW_IMAGES:
                rows = [row for row, node in enumerate(self.nodes) if name in node.images]
            else:
                rows = self._all_holders().get(name, [])
            mask = np.zeros(len(self.nodes), bool)
            mask[rows] = True
            cached = self._images[name] = (self.nodes[rows[0]].images[name] if rows else 0, mask)
        return cached

    def _all_holders(self) -> dict[str, list[int]]:
        """Rows by image. One question is answered sooner by looking at each node; hundreds are not."""
        if self._holders is None:
            self._holders = {}
            for row, node in enumerate(self.nodes):
                for image in node.images:
                    self._holders.setdefault(image, []).append(row)
        return self._holders

    def _column(self, codes: Iterable[int]) -> Codes:
        return np.fromiter(codes, np.int32, len(self.nodes))


def by_resource(rows: Sequence[Mapping[str, int]]) -> dict[str, Amounts]:
    """A column a resource; where a node does not name it, 0."""
    columns: dict[str, list[int]] = {}
    for row, amounts in enumerate(rows):
        for name, amount in amounts.items():
            if name not in columns:
                columns[name] = [0] * len(rows)
            columns[name][row] = min(amount, MOST)
    return {name: np.array(column, np.int64) for name, column in columns.items()}


def interned(keys: Sequence[Keys]) -> NDArray[np.int64]:
    """One number for each combination that occurs, from 0 on."""
    combined: NDArray[np.int64] | None = None
    size = 1
    for key in keys:
        least, most = int(key.min()), int(key.max())
        if most == least:
            continue
        codes = key.astype(np.int64) - least
        if combined is None:
            combined, size = codes, most - least + 1
            continue
        if size * (most - least + 1) >= _ROOM:
            combined = np.unique(combined, return_inverse=True)[1]
            size = len(combined)
        combined, size = combined * (most - least + 1) + codes, size * (most - least + 1)
    if combined is None:
        return np.zeros(len(keys[0]), np.int64)
    numbers: NDArray[np.int64]
    if size > _FEW_TIMES * len(combined):
        numbers = np.unique(combined, return_inverse=True)[1]
    else:
        occurs = np.zeros(size, np.int64)
        occurs[combined] = 1
        numbers = (np.cumsum(occurs) - 1)[combined]
    return numbers


def in_order(keys: Iterable[NDArray[np.int64]]) -> NDArray[np.intp]:
    """Rows in the order of the first key, equal ones in that of the next, and so on, then as they stand."""
    packed: list[NDArray[np.int64]] = []
    size, rows = _ROOM, 0
    for key in keys:
        rows = len(key)
        least = int(key.min(initial=MOST))
        span = int(key.max(initial=-MOST)) - least + 1
        if span <= 1:
            continue
        if size * span < _ROOM:
            packed[-1] = packed[-1] * span + (key - least)
            size *= span
        else:
            packed.append(key - least)
            size = span
    return np.lexsort(packed[::-1]) if packed else np.arange(rows)
