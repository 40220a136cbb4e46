"""Sizes and costs that are known as a least and a most, which end at what 64 bits hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

MOST: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Range:
    """From `least` to `most`."""

    least: int
    most: int

    def __add__(self, other: Range) -> Range:
        return Range(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def __mul__(self, other: Range) -> Range:
        return Range(min(self.least * other.least, MOST), min(self.most * other.most, MOST))

    def times(self, factor: float) -> Range:
        """Each end by a factor, rounded up."""
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: Range) -> Range:
        """What holds both."""
        return Range(min(self.least, other.least), max(self.most, other.most))


def fixed(value: int) -> Range:
    """Neither more nor less."""
    return Range(value, value)


UNKNOWN: Final = Range(0, MOST)


def _scaled(value: int, factor: float) -> int:
    scaled = math.ceil(float(value) * factor)
    return min(MOST, scaled)
