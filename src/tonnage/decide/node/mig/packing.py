"""How few GPUs a demand for slices of memory needs, and what each of them is divided into (MIG-6).

A service may run on any profile with memory enough. So only this counts of a layout: how many of its devices
have at least so much memory, for each amount that a profile has. A demand is met when the layouts' sums reach
the demand's for every amount (by Hall's theorem, as the sets of profiles that do are nested).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import ceil, floor
from typing import Final

from tonnage.model.catalog.mig import MigModel
from tonnage.model.mig.placements import placements
from tonnage.model.reasons.gpu.mig import MigMemoryShort

_MOST_STEPS: Final = 200_000
"""Of the search for a division among as few GPUs as the bound allows; then one that is found first counts."""

_LOOKED_FOR: Final = 8
"""GPUs of each layout of the linear solution that may be divided otherwise in the end."""

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Packing:
    """`gpus` are layouts (profile: number) and how many GPUs have each, `serves` the profile for each demand.

    `least`: it is proven that no fewer GPUs do.
    """

    gpus: tuple[tuple[Mapping[str, int], int], ...]
    serves: Mapping[int, str]
    least: bool

    @property
    def count(self) -> int:
        return sum(number for _, number in self.gpus)


def pack(
    model: MigModel, memory_mib: Mapping[str, int], demand: Mapping[int, int]
) -> Packing | MigMemoryShort:
    """The fewest GPUs for `demand`, services by the MiB that each needs.

    `memory_mib` is what a device of each profile has that may be used. Media variants are not given out.
    """
    sizes = tuple(sorted(set(memory_mib.values())))
    largest = max(demand, default=0)
    if largest > sizes[-1]:
        return MigMemoryShort(
            subject=model.name,
            message=f"{largest} MiB is more than one GPU has ({sizes[-1]} MiB)",
            instead=("several GPUs for it",),
            needed_mib=largest,
            most_mib=sizes[-1],
        )
    target = tuple(sum(count for mib, count in demand.items() if mib > below) for below in (0, *sizes[:-1]))
    layouts = _layouts(model, tuple(sorted(memory_mib.items())))
    chosen, least = _fewest(tuple(layouts), target)
    serves = {mib: _smallest(memory_mib, model, mib) for mib in sorted(demand)}
    gpus = tuple((dict(layouts[vector]), number) for vector, number in chosen)
    return Packing(gpus, serves, least)


def _smallest(memory_mib: Mapping[str, int], model: MigModel, mib: int) -> str:
    able = [name for name, has in memory_mib.items() if has >= mib]
    return min(able, key=lambda name: (memory_mib[name], model.profiles[name].compute))


@lru_cache(maxsize=32)
def _layouts(
    model: MigModel, memory: tuple[tuple[str, int], ...]
) -> dict[Vector, tuple[tuple[str, int], ...]]:
    """The layouts that no other surpasses, by how many of their devices have at least each amount."""
    sizes = sorted({mib for _, mib in memory})
    by_vector: dict[Vector, tuple[tuple[str, int], ...]] = {}
    for counts in product(*(range(model.profiles[name].most + 1) for name, _ in memory)):
        layout = tuple((name, count) for (name, _), count in zip(memory, counts, strict=True) if count)
        if placements(model, dict(layout)) is not None:
            many = zip((mib for _, mib in memory), counts, strict=True)
            pairs = list(many)
            vector = tuple(sum(count for mib, count in pairs if mib >= size) for size in sizes)
            by_vector.setdefault(vector, layout)
    return {
        candidate: layout
        for candidate, layout in by_vector.items()
        if not any(_surpasses(two, candidate) for two in by_vector)
    }


def _surpasses(vector: Vector, other: Vector) -> bool:
    return vector != other and all(a >= b for a, b in zip(vector, other, strict=True))


def _fewest(vectors: tuple[Vector, ...], target: Vector) -> tuple[tuple[tuple[Vector, int], ...], bool]:
    """(layouts with their number, whether no fewer do).

    Of many GPUs most are divided as the linear solution has them, and only the last few are looked for: that
    solution rounded up is never many GPUs away from the least.
    """
    prices = _prices(vectors)
    dearest = max(prices, key=lambda price: _worth(price, target))
    least = ceil(_worth(dearest, target))
    shares = _shares(vectors, dearest, target)
    sure = Counter({vector: floor(share) - _LOOKED_FOR for vector, share in shares.items()})
    sure = +sure
    rounded = Counter({vector: ceil(share) for vector, share in shares.items() if share})
    covered = [sum(vector[place] * number for vector, number in sure.items()) for place in range(len(target))]
    left = tuple(max(many - has, 0) for many, has in zip(target, covered, strict=True))
    search = _Search(prices, _MOST_STEPS)
    for count in range(least, rounded.total() + 1):
        answer = search.divided(sorted(vectors, reverse=True), left, count - sure.total())  # many small first
        if answer is not None:
            total = sure + Counter(dict(answer))
            return tuple(total.items()), count == least or not (sure or search.gave_up)
        if search.gave_up:
            break
    return tuple(rounded.items()), rounded.total() == least


def _shares(
    vectors: tuple[Vector, ...], price: tuple[Fraction, ...], target: Vector
) -> dict[Vector, Fraction]:
    """How many GPUs of each layout meet a demand where parts of a GPU count, and nothing takes fewer.

    Only layouts that cost a whole GPU at the dearest prices are in it, and more than wanted is had only of
    what costs nothing (complementary slackness).
    """
    width = len(target)
    free = [
        tuple(-int(place == other) for other in range(width)) for place in range(width) if not price[place]
    ]
    columns = [*(vector for vector in vectors if _worth(price, vector) == 1), *free]
    for chosen in combinations(columns, width):
        rows = [[Fraction(vector[place]) for vector in chosen] for place in range(width)]
        solved = _solved(rows, [Fraction(number) for number in target])
        if solved is not None and min(solved) >= 0:
            return {vector: share for vector, share in zip(chosen, solved, strict=True) if min(vector) >= 0}
    raise AssertionError("what is dearest has a solution that costs as much")


@lru_cache(maxsize=32)
def _prices(vectors: tuple[Vector, ...]) -> tuple[tuple[Fraction, ...], ...]:
    """Corners of the prices at which no GPU is worth more than 1: a demand's worth bounds its GPUs below."""
    width = len(vectors[0])
    prices = set[tuple[Fraction, ...]]()
    walls = [*vectors, *(tuple(int(i == j) for i in range(width)) for j in range(width))]
    for chosen in combinations(range(len(walls)), width):
        rows = [[Fraction(number) for number in walls[place]] for place in chosen]
        sides = [Fraction(int(place < len(vectors))) for place in chosen]
        price = _solved(rows, sides)
        if price is not None and min(price) >= 0 and all(_worth(price, vector) <= 1 for vector in vectors):
            prices.add(price)
    return tuple(sorted(prices))


def _worth(price: tuple[Fraction, ...], vector: Vector) -> Fraction:
    return sum((p * v for p, v in zip(price, vector, strict=True)), Fraction())


def _solved(rows: list[list[Fraction]], sides: list[Fraction]) -> tuple[Fraction, ...] | None:
    """The solution of a square system by elimination; None without one, or with many."""
    table = [[*row, side] for row, side in zip(rows, sides, strict=True)]
    for place in range(len(table)):
        pivot = next((row for row in table[place:] if row[place]), None)
        if pivot is None:
            return None
        table.remove(pivot)
        table.insert(place, [number / pivot[place] for number in pivot])
        for other, row in enumerate(table):
            if other != place and row[place]:
                table[other] = [a - row[place] * b for a, b in zip(row, table[place], strict=True)]
    return tuple(row[-1] for row in table)


class _Search:
    """Looks for a division of a demand among so many GPUs; `gave_up` after too many steps."""

    def __init__(self, prices: tuple[tuple[Fraction, ...], ...], steps: int) -> None:
        self._prices = prices
        self._steps = steps
        self.gave_up = False

    def divided(
        self, vectors: list[Vector], target: Vector, count: int
    ) -> tuple[tuple[Vector, int], ...] | None:
        if not any(number > 0 for number in target):
            return ()
        if not vectors or count <= 0 or any(_worth(price, target) > count for price in self._prices):
            return None
        vector, *others = vectors
        for number in self._numbers(vector, target, count):
            self._steps -= 1
            if self._steps < 0:
                self.gave_up = True
                return None
            left = tuple(max(w - number * v, 0) for w, v in zip(target, vector, strict=True))
            rest = self.divided(others, left, count - number)
            if rest is not None:
                return ((vector, number), *rest) if number else rest
        return None

    def _numbers(self, vector: Vector, target: Vector, count: int) -> Iterator[int]:
        most = max((ceil(Fraction(w, v)) for w, v in zip(target, vector, strict=True) if v), default=0)
        yield from range(min(most, count), -1, -1)
