"""What makes one set of devices better than another.

A container asks for k devices. Of all sets that it may get, the best is found by three rules, each deciding
only where the ones before leave a tie:

1. The quality of the set: its slowest pair, then the sum over its pairs, then the sum over its pairs as if
   there were no NVLink. A ring or an all-reduce is as fast as its slowest hop; the sum tells sets apart whose
   slowest pairs are equal; nearness over PCI, shared NUMA nodes above all, means memory and network near to
   the whole set. That is all that is left to choose where NVSwitches make every pair equally fast.
2. The least harm to future requests: the best that the devices left free can do for requests of 1, 2, 4 and
   8 devices (`FUTURE_SIZES`). For each size, the free devices are divided into as many sets of that size as
   they make, for the greatest sum of qualities; a size counts as often as it has devices, as each of them
   gets the bandwidth. So a single device is taken where it breaks no linked pair, and a pair where it breaks
   no linked four. (One device has no pair: size 1 asks only that devices are left, and every choice leaves as
   many.)
3. The lowest indices, compared in order.

Qualities are integers that compare and add field by field: the slowest pair, the sum, the sum over PCI, from
the highest bits down, each field wide enough for every sum that is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.model.devices.links import LinkMatrix, Row

FUTURE_SIZES: Final = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Pairs:
    """A LinkMatrix made ready for sums, by places: `least[i][j]` is the bandwidth of a pair in the highest
    field, `sums[i][j]` what the pair adds to the two fields below.
    """

    least: tuple[Row, ...] = ()
    sums: tuple[Row, ...] = ()

    def __len__(self) -> int:
        return len(self.least)

    def among(self, members: Sequence[int]) -> Pairs:
        """The pairs of some devices alone, in the order given."""
        least = (tuple(self.least[i][j] for j in members) for i in members)
        sums = (tuple(self.sums[i][j] for j in members) for i in members)
        return Pairs(tuple(least), tuple(sums))

    def quality(self, members: Sequence[int]) -> int:
        """The quality of a set of devices, given by their places; 0 of one device or none."""
        pairs = [(i, j) for place, i in enumerate(members) for j in members[place + 1 :]]
        if not pairs:
            return 0
        return min(self.least[i][j] for i, j in pairs) + sum(self.sums[i][j] for i, j in pairs)


def pairs_of(matrix: LinkMatrix) -> Pairs:
    """The pairs of all devices of the matrix, in its order."""
    size = len(matrix.uuids)
    counted = size * max((size - 1) // 2 + 1, sum(j * (j - 1) // 2 for j in FUTURE_SIZES))
    near_bits = (counted * max(map(max, matrix.pci), default=0)).bit_length()
    most = max(map(max, matrix.best), default=0)
    sum_bits = (counted * most).bit_length() + near_bits
    return Pairs(
        tuple(tuple(best << sum_bits for best in row) for row in matrix.best),
        tuple(
            tuple((best << near_bits) + near for best, near in zip(*rows, strict=True))
            for rows in zip(matrix.best, matrix.pci, strict=True)
        ),
    )
