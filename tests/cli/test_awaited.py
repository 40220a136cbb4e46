"""A command waits for its answer, and nobody writes the answer out on the way."""

from __future__ import annotations

import asyncio

import pytest

from tonnage.cli.awaited import awaited


class Large:
    written = 0

    def __repr__(self) -> str:
        Large.written += 1
        return "all of it"


async def read() -> Large:
    await asyncio.sleep(0)
    return Large()


def test_what_was_read_is_not_written_out() -> None:
    assert isinstance(awaited(read()), Large)
    assert Large.written == 0


def test_what_goes_wrong_is_raised() -> None:
    async def refused() -> None:
        raise LookupError("no such node")

    with pytest.raises(LookupError, match="no such node"):
        awaited(refused())
