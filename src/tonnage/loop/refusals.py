"""Refusals that a controller takes as they come: what it asks for is gone, or is not what it was.

Whoever was quicker is soon seen in the controller's copy, which it then decides on anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tonnage.model.errors import ApiError

T = TypeVar("T")


@contextmanager
def passing_over(*codes: int) -> Iterator[None]:
    """Go on after a refusal with one of these codes."""
    try:
        yield
    except ApiError as error:
        if error.code not in codes:
            raise


async def or_none(request: Awaitable[T], codes: Container[int] = (404,)) -> T | None:
    """The answer, None for a refusal with one of these codes."""
    try:
        return await request
    except ApiError as error:
        if error.code not in codes:
            raise
        return None
