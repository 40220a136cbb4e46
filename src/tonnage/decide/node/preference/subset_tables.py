"""Exact choice among few devices: every subset's quality and future, worked out once."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import add
from typing import Final

from tonnage.decide.node.preference.objective import FUTURE_SIZES, Pairs

MOST_DEVICES: Final = 16
"""2^16 subsets: 1.2 MB of tables."""
_SLICE: Final = 4000
"""Subsets looked at between two yields: about a millisecond."""


@dataclass(frozen=True, slots=True)
class SubsetTables:
    """Subsets are bit masks in which lower places have higher bits, so of two masks with as many bits each
    the greater one has the lower indices.

    `quality` and `future` (see `objective`) are by mask; `ranked[k]` are the masks of k devices, best first.
    """

    devices: int
    quality: array[int]
    future: array[int]
    ranked: tuple[array[int], ...]

    def choose(self, free: Sequence[int], required: Sequence[int], size: int) -> tuple[int, ...]:
        """The best `size` places out of `free`, with all of `required`. At most C(devices, size) short steps.

        `required` is part of `free`, and `size` lies between what is required and what is free.
        """
        offered, must = self._mask(free), self._mask(required)
        unfit = (1 << self.devices) - 1 & ~offered | must
        valid = [mask for mask in self.ranked[size] if mask & unfit == must]
        quality, future = self.quality, self.future
        best = quality[valid[0]]
        equal = valid[: bisect_right(valid, -best, key=lambda mask: -quality[mask])]
        futures = [future[offered ^ mask] for mask in equal]
        chosen = equal[futures.index(max(futures))]
        return tuple(place for place in range(self.devices) if chosen >> self.devices - 1 - place & 1)

    def _mask(self, places: Sequence[int]) -> int:
        top = self.devices - 1
        return sum(1 << top - place for place in places)


def subset_tables(pairs: Pairs) -> Generator[None, None, SubsetTables]:
    """Builds the tables; yields after every few thousand subsets, so that a loop may do other things between.

    Raises:
        ValueError: more than `MOST_DEVICES` devices.
    """
    devices = len(pairs)
    if devices > MOST_DEVICES:
        raise ValueError(f"{devices} devices, at most {MOST_DEVICES}")
    quality = yield from _qualities(pairs)
    counted: list[array[int]] = [array("H") for _ in range(devices + 1)]
    for mask in range((1 << devices) - 1, -1, -1):
        counted[mask.bit_count()].append(mask)
        if not mask % _SLICE:
            yield
    future = array("q", bytes(8 << devices))
    for size in FUTURE_SIZES:
        if 1 < size <= devices:
            divided = yield from _divided(quality, counted, size)
            for part in _slices(len(future)):
                weighted = [size * value for value in divided[part]]
                future[part] = array("q", map(add, future[part], weighted))
                yield
    for masks in counted:
        yield from _rank(masks, quality)
    return SubsetTables(devices, quality, future, tuple(counted))


def _qualities(pairs: Pairs) -> Generator[None, None, array[int]]:
    """The quality of every subset: those with a device follow from those without it."""
    devices = len(pairs)
    no_pair = 1 << 62
    least, sums = array("q", [no_pair]), array("q", [0])
    for added in reversed(range(devices)):
        row_least, row_sums = array("q", [no_pair]), array("q", [0])
        for other in reversed(range(added + 1, devices)):
            here, more = pairs.least[added][other], pairs.sums[added][other]
            row_least.extend([min(here, old) for old in row_least])
            row_sums.extend([old + more for old in row_sums])
            yield
        for part in _slices(len(row_sums)):
            least.extend(map(min, least[part], row_least[part]))
            sums.extend(map(add, sums[part], row_sums[part]))
            yield
    for part in _slices(len(sums)):
        pairwise = zip(least[part], sums[part], strict=True)
        sums[part] = array("q", [a + b if a < no_pair else 0 for a, b in pairwise])
        yield
    return sums


def _divided(
    quality: array[int], counted: Sequence[array[int]], size: int
) -> Generator[None, None, array[int]]:
    """For every subset the greatest sum of qualities of as many disjoint `size`-sets as it can hold."""
    divided = array("q", bytes(8 * len(quality)))
    for mask in counted[size]:
        divided[mask] = quality[mask]
    low = [_bits(byte) for byte in range(min(256, len(quality)))]
    high = [_bits(byte << 8) for byte in range(max(1, len(quality) >> 8))]
    steps = 0
    for count in range(2 * size, len(counted), size):
        for mask in counted[count]:
            first, *others = high[mask >> 8] + low[mask & 255]
            parts = [first + rest for rest in map(sum, combinations(others, size - 1))]
            divided[mask] = max([quality[part] + divided[mask - part] for part in parts])
            steps += len(parts)
            if steps >= _SLICE:
                steps = 0
                yield
    yield from _spread_up(divided)
    return divided


def _spread_up(table: array[int]) -> Generator[None, None, None]:
    """Give every mask the greatest value of its subsets: one that is no multiple leaves some device over."""
    step = 1
    while step < len(table):
        if step * step < len(table):
            for start in range(step):
                low, high = slice(start, None, 2 * step), slice(start + step, None, 2 * step)
                table[high] = _greater(table[low], table[high])
                if not start % 4:
                    yield
        else:
            for start in range(0, len(table), 2 * step):
                for part in _slices(step):
                    low = slice(start + part.start, start + part.stop)
                    high = slice(low.start + step, low.stop + step)
                    table[high] = _greater(table[low], table[high])
                    yield
        step *= 2


def _greater(row: array[int], other: array[int]) -> array[int]:
    pairwise = zip(row, other, strict=True)
    return array("q", [a if a > b else b for a, b in pairwise])  # noqa: FURB136 - max() takes twice as long


def _rank(masks: array[int], quality: array[int]) -> Generator[None, None, None]:
    """Sort falling masks by falling quality; equal ones stay as they are. Runs first: a sort cannot pause."""
    for part in _slices(len(masks)):
        masks[part] = array("H", sorted(masks[part], key=quality.__getitem__, reverse=True))
        yield
    masks[:] = array("H", sorted(masks, key=quality.__getitem__, reverse=True))


def _slices(length: int) -> Iterator[slice]:
    """Parts of `length` things, each little enough to be done at once."""
    return (slice(start, min(start + _SLICE, length)) for start in range(0, length, _SLICE))


def _bits(mask: int) -> list[int]:
    """The single bits of a mask, greatest first."""
    return [1 << place for place in reversed(range(mask.bit_length())) if mask >> place & 1]
