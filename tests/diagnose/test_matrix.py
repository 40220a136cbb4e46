"""The matrix of symptoms: each row is found in objects without Events, its near misses are not."""

from __future__ import annotations

from typing import Final

import pytest

from support.matrix_rows import ROWS, Row, State, problems_of, rows

_ALL: Final = rows()


@pytest.mark.parametrize("row", _ALL, ids=lambda row: str(row.path.stem))
def test_the_file_of_a_row_is_well_formed(row: Row) -> None:
    assert problems_of(row) == []


@pytest.mark.parametrize("state", [row.state for row in _ALL], ids=lambda state: str(state.name))
async def test_a_row_is_found(state: State) -> None:
    answer = await state.answer()
    assert answer.differences(state.expect) == [], f"{state.about}\n{answer.text}"


@pytest.mark.parametrize(
    "state", [near for row in _ALL for near in row.near_misses], ids=lambda state: str(state.name)
)
async def test_a_near_miss_is_not_the_row(state: State) -> None:
    answer = await state.answer()
    assert state.code not in answer.codes, f"{state.about}\n{answer.text}"
    assert answer.differences(state.expect) == [], f"{state.about}\n{answer.text}"


async def test_rows_that_need_events_are_not_found_without_them() -> None:
    """Else they need none."""
    needing = [row.state for row in _ALL if row.body.get("needs_events")]
    assert [state.name for state in needing if state.code in (await state.answer(events=False)).codes] == []


def test_every_row_has_a_file() -> None:
    there = {row.number for row in _ALL}
    assert set(ROWS) - there == set()
