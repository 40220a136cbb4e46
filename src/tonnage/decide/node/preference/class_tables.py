"""Exact choice among many devices of few kinds: only how many of each kind matters."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import comb, prod
from operator import le, mul
from typing import Final

from tonnage.decide.node.preference.objective import FUTURE_SIZES, Pairs

MOST_STEPS: Final = 100_000
"""Of building: about 0.2 s."""
_SLICE: Final = 500

Counts = tuple[int, ...]
"""How many devices of each kind."""


@dataclass(frozen=True, slots=True)
class ClassTables:
    """`kinds` are places of devices that can stand for each other: exchanging two of one kind changes no
    bandwidth. `quality` and `future` (see `objective`) are by code: counts times `units`, summed.
    """

    kinds: tuple[tuple[int, ...], ...]
    units: Counts
    by_size: tuple[tuple[Counts, ...], ...]
    quality: tuple[int, ...]
    future: tuple[int, ...]

    def choose(self, free: Sequence[int], required: Sequence[int], size: int) -> tuple[int, ...]:
        """The best `size` places out of `free`, with all of `required`.

        `required` is part of `free`, and `size` lies between what is required and what is free.
        """
        offered, must = set(free), set(required)
        ordered = [
            sorted(offered.intersection(kind), key=lambda place: (place not in must, place))
            for kind in self.kinds
        ]
        most = tuple(map(len, ordered))
        least = tuple(len(must.intersection(kind)) for kind in self.kinds)
        everything = self._code(most)
        best, equal = (-1, -1), list[Counts]()
        for counts in self.by_size[size]:
            if all(low <= count <= high for low, count, high in zip(least, counts, most, strict=True)):
                code = self._code(counts)
                worth = self.quality[code], self.future[everything - code]
                if worth >= best:
                    equal = [*equal, counts] if worth == best else [counts]
                    best = worth
        return min(_lowest(ordered, counts) for counts in equal)

    def _code(self, counts: Counts) -> int:
        return sum(map(mul, counts, self.units))


def kinds_of(pairs: Pairs) -> tuple[tuple[int, ...], ...]:
    """The places of devices that can stand for each other, kinds in the order of their lowest place."""
    kinds: list[list[int]] = []
    for place in range(len(pairs)):
        for kind in kinds:
            if _alike(pairs.sums, kind[0], place) and _alike(pairs.least, kind[0], place):
                kind.append(place)
                break
        else:
            kinds.append([place])
    return tuple(map(tuple, kinds))


def steps_of(kinds: Sequence[Sequence[int]]) -> int:
    """How many steps tables of these kinds take to build, at most."""
    states = prod(len(kind) + 1 for kind in kinds)
    return states * sum(comb(size + len(kinds) - 1, size) for size in FUTURE_SIZES)


def class_tables(pairs: Pairs, kinds: tuple[tuple[int, ...], ...]) -> Generator[None, None, ClassTables]:
    """Builds the tables; yields now and then. See `steps_of` before: it may be far too much."""
    units = tuple(prod(len(kind) + 1 for kind in kinds[later + 1 :]) for later in range(len(kinds)))
    states = tuple(product(*(range(len(kind) + 1) for kind in kinds)))  # in the order of their codes
    by_size: list[list[Counts]] = [[] for _ in range(len(pairs) + 1)]
    quality: list[int] = []
    for counts in states:
        by_size[sum(counts)].append(counts)
        quality.append(_quality(pairs, kinds, counts))
        if not len(quality) % _SLICE:
            yield
    tables = ClassTables(kinds, units, tuple(map(tuple, by_size)), tuple(quality), ())
    future = [0] * len(quality)
    for size in FUTURE_SIZES:
        if 1 < size <= len(pairs):
            divided = yield from _divided(states, tables, size)
            future = [sofar + size * more for sofar, more in zip(future, divided, strict=True)]
    return replace(tables, future=tuple(future))


def _alike(rows: Sequence[Sequence[int]], place: int, other: int) -> bool:
    """Whether exchanging two places leaves all rows as they are."""
    exchanged = list(rows[other])
    exchanged[place], exchanged[other] = exchanged[other], exchanged[place]
    return tuple(exchanged) == tuple(rows[place])


def _lowest(ordered: Sequence[Sequence[int]], counts: Counts) -> tuple[int, ...]:
    """The first so many places of each kind, in order."""
    return tuple(sorted(place for kind, count in zip(ordered, counts, strict=True) for place in kind[:count]))


def _quality(pairs: Pairs, kinds: Sequence[Sequence[int]], counts: Counts) -> int:
    least: list[int] = []
    sums = 0
    present = [(kind, count) for kind, count in zip(kinds, counts, strict=True) if count]
    for place, (kind, count) in enumerate(present):
        if count > 1:
            least.append(pairs.least[kind[0]][kind[1]])
            sums += comb(count, 2) * pairs.sums[kind[0]][kind[1]]
        for other, more in present[:place]:
            least.append(pairs.least[kind[0]][other[0]])
            sums += count * more * pairs.sums[kind[0]][other[0]]
    return min(least, default=0) + sums


def _divided(states: Sequence[Counts], tables: ClassTables, size: int) -> Generator[None, None, list[int]]:
    """For every state the greatest sum of qualities of as many disjoint `size`-sets as it can hold."""
    divided: list[int] = []
    steps = 0
    codes = [(counts, sum(map(mul, counts, tables.units))) for counts in tables.by_size[size]]
    for code, counts in enumerate(states):
        total = sum(counts)
        if total < size:
            divided.append(0)
        elif total % size:  # some device is left over
            one_less = (unit for count, unit in zip(counts, tables.units, strict=True) if count)
            divided.append(max(divided[code - unit] for unit in one_less))
        else:
            first = next(kind for kind, count in enumerate(counts) if count)
            divided.append(
                max(
                    tables.quality[part_code] + (divided[code - part_code] if part_code < code else 0)
                    for part, part_code in codes
                    if part[first] and all(map(le, part, counts))
                )
            )
            steps += len(codes)
        if steps >= _SLICE:
            steps = 0
            yield
    return divided
