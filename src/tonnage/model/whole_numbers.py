"""Whole numbers in texts that anybody may have written."""

from __future__ import annotations

from typing import Final

_MOST_DIGITS: Final = 18
"""What fits into 64 bits. Python refuses to read more than 4,300, and takes its time with fewer."""


def whole_number(text: str) -> int | None:
    """The number that decimal digits name; None for every other text, and for more than 18 digits.

    >>> whole_number("042"), whole_number("-1"), whole_number("²"), whole_number("9" * 5000)
    (42, None, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None
