"""A command's wait for its answer, without `asyncio.run`'s unread message about it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def awaited(work: Coroutine[Any, Any, T]) -> T:
    """What the work returns, as `asyncio.run` returns it.

    At its end `asyncio.run` looks up who handles SIGINT. Python 3.11 tries to read that handler as a number,
    and writes out the whole result of the task for an error that it then drops. Of a cluster that is a third
    of the command's time. So the task itself returns nothing.
    """
    answers: list[T] = []

    async def keep() -> None:
        answers.append(await work)

    asyncio.run(keep())
    return answers[0]
