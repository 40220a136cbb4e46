"""Slices decide room on a GPU: held against every way to place profiles. Covers MIG-2."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest

from tonnage.diagnose.lint.rules.mig_parted import refusal
from tonnage.model.catalog.mig import MigBoard, mig_boards

SEVEN = [range(7), range(7), (0, 2, 4, 6), (0, 2, 4), (0, 4), (0,), (0,)]
"""Where the profiles of boards with eight memory slices may start, in the catalogue's order."""
FOUR = [range(4), range(4), (0, 2), (0, 2), (0,)]


def placeable(counts: Mapping[str, int], board: MigBoard, starts: Mapping[str, object]) -> bool:
    wanted = [name for name, count in counts.items() for _ in range(count)]

    def rest(index: int, taken: int, last: int) -> bool:
        if index == len(wanted):
            return True
        name = wanted[index]
        again = index > 0 and wanted[index - 1] == name
        for start in starts[name]:  # type: ignore[attr-defined]
            mask = ((1 << board.profiles[name].memory) - 1) << start
            if not mask & taken and not (again and start < last) and rest(index + 1, taken | mask, start):
                return True
        return False

    return rest(0, 0, -1)


@pytest.mark.parametrize(("name", "starts", "fit"), [("A100 40GB", SEVEN, 127), ("A30", FOUR, 21)])
def test_slices_allow_exactly_what_can_be_placed(name: str, starts: list[object], fit: int) -> None:
    board = next(board for board in mig_boards() if board.name == name)
    places = dict(zip(board.profiles, starts, strict=True))
    valid = 0
    for numbers in product(*(range(profile.most + 1) for profile in board.profiles.values())):
        counts = dict(zip(board.profiles, numbers, strict=True))
        can = placeable(counts, board, places)
        assert (refusal(counts, board) == "") == can, counts
        valid += can and any(numbers)
    assert valid == fit
