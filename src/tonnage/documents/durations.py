"""Durations in documents, as Go writes them."""

from __future__ import annotations

from typing import Final

from tonnage.model.durations import nanoseconds

_LONGEST_S: Final = 1e9


def seconds_of(text: str | int | float) -> float | None:
    """A duration as Go writes it (`1m30s`), a number of nanoseconds, or None for `infinite`.

    >>> seconds_of("1m30s"), seconds_of(2_000_000_000), seconds_of("infinite")
    (90.0, 2.0, None)

    Raises:
        ValueError: no duration above zero, or more than 30 years.
    """
    if text == "infinite":
        return None
    if isinstance(text, str):
        try:
            seconds = nanoseconds(text) / 1e9
        except ValueError:
            raise ValueError(f"{text[:60]!r} is not a duration") from None
    else:
        seconds = text * 1e-9
    if not 0 < seconds < _LONGEST_S:
        raise ValueError(f"{str(text)[:60]} is not a duration above zero")
    return seconds
