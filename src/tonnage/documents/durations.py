"""Durations in documents, as Go writes them."""

from __future__ import annotations

import re
from typing import Final

_DURATION: Final = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_UNIT_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
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
        bare = text.removeprefix("+")
        parts = list(_DURATION.finditer(bare[:100]))
        if "".join(part[0] for part in parts) != bare:
            raise ValueError(f"no duration: {text[:60]!r}")
        seconds = sum(float(part[1]) * _UNIT_S[part[3]] for part in parts)
    else:
        seconds = text * 1e-9
    if not 0 < seconds < _LONGEST_S:
        raise ValueError(f"no duration above zero: {str(text)[:60]}")
    return seconds
