"""A good choice in bounded time where none is worked out: grown from several starts, bettered by exchanges.

By the rules of `objective`, but for the second one: harm is how fast the chosen devices are joined to those
left free, summed over all such pairs. What is joined strongly to free devices is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from tonnage.decide.node.objective import Pairs

GROWING_STEPS: Final = 20_000
"""Candidates looked at; no start is begun after them. About 10 ms."""
EXCHANGE_STEPS: Final = 200_000
"""Pairs looked at; no exchange is tried after them. About 15 ms."""

Worth = tuple[int, int, tuple[int, ...]]
"""Quality, harm and places, the latter two negative: the greatest is the best."""


def nearly_best(
    pairs: Pairs,
    kinds: Sequence[Sequence[int]],
    free: Sequence[int],
    required: Sequence[int],
    size: int,
) -> tuple[int, ...]:
    """`size` places out of `free`, with all of `required`, in order.

    `required` is part of `free`, and `size` lies between what is required and what is free. `kinds` are
    places that can stand for each other; one start of each is enough.
    """
    if size == len(required):
        return tuple(sorted(required))
    choice = _Choice(pairs, tuple(sorted(free)), {place: sum(_at(pairs.sums[place], free)) for place in free})
    best: Worth | None = None
    steps = GROWING_STEPS
    for start in choice.starts(kinds, required, size):
        if best is not None and steps <= 0:
            break
        steps -= size * len(choice.free)
        grown = choice.worth(choice.grown(start, size))
        best = grown if best is None else max(best, grown)
    if best is None:
        return ()
    return choice.exchanged(best, frozenset(required))


@dataclass(frozen=True, slots=True)
class _Choice:
    """`ties` is how strongly each free place is joined to all free ones."""

    pairs: Pairs
    free: tuple[int, ...]
    ties: dict[int, int]

    def starts(
        self, kinds: Sequence[Sequence[int]], required: Sequence[int], size: int
    ) -> Iterator[tuple[int, ...]]:
        """What is required; otherwise a device of each kind, those with the strongest company first."""
        if required:
            yield tuple(required)
            return
        offered = frozenset(self.free)
        lowest = (min(offered.intersection(kind), default=None) for kind in kinds)
        firsts = [place for place in lowest if place is not None]

        def company(place: int) -> tuple[int, int, int]:
            strongest = sorted(_at(self.pairs.sums[place], self.free), reverse=True)[: size - 1]
            return -sum(strongest), self.ties[place], place

        yield from ((place,) for place in sorted(firsts, key=company))

    def grown(self, start: Sequence[int], size: int) -> tuple[int, ...]:
        """The set after adding, one at a time, the device that keeps it the fastest."""
        chosen = list(start)
        slowest = min((self.pairs.least[i][j] for i in chosen for j in chosen if i != j), default=1 << 200)
        left = {
            place: (min(_at(self.pairs.least[place], chosen)), sum(_at(self.pairs.sums[place], chosen)))
            for place in self.free
            if place not in chosen
        }
        while len(chosen) < size:
            added = max(
                left,
                key=lambda place: (min(slowest, left[place][0]), left[place][1], -self.ties[place], -place),
            )
            slowest = min(slowest, left.pop(added)[0])
            chosen.append(added)
            least, sums = self.pairs.least[added], self.pairs.sums[added]
            for place, (fast, total) in left.items():
                left[place] = min(fast, least[place]), total + sums[place]
        return tuple(sorted(chosen))

    def worth(self, places: tuple[int, ...]) -> Worth:
        """What the set is worth, beside other sets of its size."""
        inside = sum(sum(_at(self.pairs.sums[place], places)) for place in places)
        harm = sum(_at(self.ties, places)) - inside
        return self.pairs.quality(places), -harm, tuple(-place for place in places)

    def exchanged(self, best: Worth, required: frozenset[int]) -> tuple[int, ...]:
        """The places of the best set after exchanging one or two devices at a time while that helps."""
        steps, better = EXCHANGE_STEPS, True
        while better and steps > 0:
            better = False
            places = tuple(-place for place in best[2])
            others = [place for place in self.free if place not in places]
            moved = sorted(set(places) - required)
            for given in (*((place,) for place in moved), *combinations(moved, 2)):
                if steps <= 0 or (better and len(given) == 2):
                    break
                rest = tuple(place for place in places if place not in given)
                taken = [(place,) for place in others] if len(given) == 1 else self._couples(others)
                steps -= len(rest) * len(self.free) * len(given)
                found = max(self._with(rest, taken), default=best)
                if found > best:
                    best, better = found, True
        return tuple(-place for place in best[2])

    def _couples(self, others: Sequence[int]) -> list[tuple[int, ...]]:
        """Each of the places with that one of them to which it is joined best."""
        couples = set[tuple[int, ...]]()
        for place in others:
            row = self.pairs.sums[place]
            partner = max((each for each in others if each != place), key=row.__getitem__, default=None)
            if partner is not None:
                couples.add((min(place, partner), max(place, partner)))
        return sorted(couples)

    def _with(self, rest: tuple[int, ...], taken: Iterable[tuple[int, ...]]) -> Iterator[Worth]:
        """What `rest` is worth with each of the groups."""
        least, sums = self.pairs.least, self.pairs.sums
        slowest = min((min(_at(least[i], rest[:n])) for n, i in enumerate(rest) if n), default=1 << 200)
        inside = sum(sum(_at(sums[i], rest[:n])) for n, i in enumerate(rest))
        ties = sum(_at(self.ties, rest))
        for group in taken:
            fast, total, tied, before = slowest, inside, ties, rest
            for place in group:
                fast = min(fast, *_at(least[place], before)) if before else fast
                total += sum(_at(sums[place], before))
                tied += self.ties[place]
                before = (*before, place)
            single = len(before) < 2
            yield 0 if single else fast + total, 2 * total - tied, tuple(-each for each in sorted(before))


def _at(row: Sequence[int] | dict[int, int], places: Iterable[int]) -> Iterator[int]:
    return map(row.__getitem__, places)
