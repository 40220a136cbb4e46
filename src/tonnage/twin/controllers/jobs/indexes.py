"""Sets of completion indexes, kept and written as intervals: `1,3-5,7`.

Source: pkg/controller/job/indexed_job_utils.go of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tonnage.model.whole_numbers import whole_number


@dataclass(frozen=True, slots=True)
class Indexes:
    """Intervals (first, last), both inclusive, in order, none touching another."""

    intervals: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parsed(cls, text: str, completions: int) -> Indexes:
        """The indexes below `completions` in a text; a part that is none is passed over.

        >>> str(Indexes.parsed("1,3-5,7,9-20", 11))
        '1,3-5,7,9,10'
        """
        intervals = []
        for part in text.split(",") if text else ():
            left, _, right = part.partition("-")
            first, last = whole_number(left), whole_number(right or left)
            if first is None or last is None:
                continue
            if first >= completions:
                break
            intervals.append((first, min(last, completions - 1)))
        return cls(_merged(intervals))

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Indexes:
        """These indexes."""
        return cls(_merged([(number, number) for number in numbers]))

    def __or__(self, other: Indexes) -> Indexes:
        return Indexes(_merged([*self.intervals, *other.intervals]))

    def __and__(self, other: Indexes) -> int:
        """How many indexes are in both."""
        return sum(
            max(min(a_last, b_last) - max(a_first, b_first) + 1, 0)
            for a_first, a_last in self.intervals
            for b_first, b_last in other.intervals
        )

    def __contains__(self, number: int) -> bool:
        place = bisect_left(self.intervals, number, key=lambda interval: interval[1])
        return place < len(self.intervals) and self.intervals[place][0] <= number

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __str__(self) -> str:
        return ",".join(_shown(first, last) for first, last in self.intervals)

    def lacking(self, completions: int) -> Iterator[int]:
        """The indexes below `completions` that are not in the set, in order."""
        number = 0
        for first, last in self.intervals:
            yield from range(number, min(first, completions))
            number = last + 1
        yield from range(number, completions)


def _merged(intervals: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        elif first <= last:
            merged.append((first, last))
    return tuple(merged)


def _shown(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
