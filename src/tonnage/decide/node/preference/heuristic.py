"""A good choice in bounded time where none is worked out: grown from several starts, bettered by exchanges.

By the rules of `objective`, but for the second one: harm is how fast the chosen devices are joined to those
left free, summed over all such pairs. What is joined strongly to free devices is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from tonnage.decide.node.preference.objective import Pairs

GROWING_STEPS: Final = 10_000
"""Candidates looked at; no start is begun after them. About 5 ms."""
EXCHANGE_STEPS: Final = 100_000
"""Pairs looked at; no exchange is tried after them. About 10 ms."""
_NO_PAIR: Final = 1 << 200

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
    places that can stand for each other: of equal ones only the lowest is tried.
    """
    if size == len(required):
        return tuple(sorted(required))
    offered = frozenset(free)
    sorts = tuple(tuple(sorted(offered.intersection(kind))) for kind in kinds)
    ties = {place: sum(_at(pairs.sums[place], free)) for place in free}
    search = _Search(pairs, tuple(sort for sort in sorts if sort), ties)
    best: Worth | None = None
    steps = GROWING_STEPS
    for start in search.starts(required, size):
        if best is not None and steps <= 0:
            break
        steps -= size * len(search.sorts)
        grown = search.worth(search.grown(start, size))
        best = grown if best is None else max(best, grown)
    return search.exchanged(best, frozenset(required)) if best is not None else ()


@dataclass(frozen=True, slots=True)
class _Search:
    """`sorts` are the free places of each kind; `ties` is how strongly each is joined to all free ones."""

    pairs: Pairs
    sorts: tuple[tuple[int, ...], ...]
    ties: dict[int, int]

    def starts(self, required: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
        """What is required; otherwise a device of each kind, those with the strongest company first."""
        if required:
            yield tuple(required)
            return

        def company(place: int) -> tuple[int, int, int]:
            strongest = sorted(_at(self.pairs.sums[place], self.ties), reverse=True)[: size - 1]
            return -sum(strongest), self.ties[place], place

        yield from ((place,) for place in sorted((sort[0] for sort in self.sorts), key=company))

    def grown(self, start: Sequence[int], size: int) -> tuple[int, ...]:
        """The set after adding, one at a time, the device that keeps it the fastest."""
        chosen = list(start)
        slowest = min((self.pairs.least[i][j] for i, j in combinations(chosen, 2)), default=_NO_PAIR)
        queues = [[place for place in reversed(sort) if place not in start] for sort in self.sorts]
        heads = {queue.pop(): queue for queue in queues if queue}
        joined = {
            place: (min(_at(self.pairs.least[place], chosen)), sum(_at(self.pairs.sums[place], chosen)))
            for place in heads
        }

        def pull(place: int) -> tuple[int, int, int, int]:
            fast, total = joined[place]
            return min(slowest, fast), total, -self.ties[place], -place

        while len(chosen) < size:
            added = max(joined, key=pull)
            here, queue = joined.pop(added), heads.pop(added)
            if queue:  # the next of its kind is joined to the others just as it was
                following = queue.pop()
                heads[following], joined[following] = queue, here
            slowest = min(slowest, here[0])
            chosen.append(added)
            least, sums = self.pairs.least[added], self.pairs.sums[added]
            for place, (fast, total) in joined.items():
                joined[place] = min(fast, least[place]), total + sums[place]
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
            addable, moved = self._others(places), self._movable(places, required)
            singles, couples = [(place,) for place in addable], self._couples(addable)
            for removed in (*((place,) for place in moved), *combinations(moved, 2)):
                if steps <= 0 or (better and len(removed) == 2):
                    break
                rest = tuple(place for place in places if place not in removed)
                groups = singles if len(removed) == 1 else couples
                steps -= len(rest) * (len(rest) + 2 * len(groups) * len(removed))
                candidate = max((best, *self._with(rest, groups)))
                if candidate > best:
                    best, better = candidate, True
        return tuple(-place for place in best[2])

    def _others(self, places: Sequence[int]) -> list[int]:
        """The lowest free places of each kind that are not chosen, two of each: a couple may need them."""
        return [place for sort in self.sorts for place in [free for free in sort if free not in places][:2]]

    def _movable(self, places: Sequence[int], required: frozenset[int]) -> list[int]:
        """The highest chosen places of each kind that are not required, two of each."""
        return [
            place
            for sort in self.sorts
            for place in [chosen for chosen in sort if chosen in places and chosen not in required][-2:]
        ]

    def _couples(self, others: Sequence[int]) -> list[tuple[int, ...]]:
        """Each of the places with that one of them to which it is joined best."""
        couples = set[tuple[int, ...]]()
        for place in others:
            row = self.pairs.sums[place]
            partner = max(
                (candidate for candidate in others if candidate != place), key=row.__getitem__, default=None
            )
            if partner is not None:
                couples.add((min(place, partner), max(place, partner)))
        return sorted(couples)

    def _with(self, rest: tuple[int, ...], groups: Iterable[tuple[int, ...]]) -> list[Worth]:
        """The most that `rest` is worth with one of the groups; several if only their places differ."""
        least, sums = self.pairs.least, self.pairs.sums
        slowest = min((min(_at(least[i], rest[:n])) for n, i in enumerate(rest) if n), default=_NO_PAIR)
        inside = sum(sum(_at(sums[i], rest[:n])) for n, i in enumerate(rest))
        ties = sum(_at(self.ties, rest))
        most, equal = (-1, 0), list[tuple[int, ...]]()
        for group in groups:
            fast, total, tied, before = slowest, inside, ties, rest
            for place in group:
                fast = min(fast, min(_at(least[place], before), default=fast))
                total += sum(_at(sums[place], before))
                tied += self.ties[place]
                before = (*before, place)
            value = (fast + total if fast < _NO_PAIR else 0), 2 * total - tied
            if value >= most:
                equal = [*equal, before] if value == most else [before]
                most = value
        return [(*most, tuple(-place for place in sorted(places))) for places in equal]


def _at(row: Sequence[int] | dict[int, int], places: Iterable[int]) -> Iterator[int]:
    return map(row.__getitem__, places)
