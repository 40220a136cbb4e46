"""Prose wraps between words, the last column of a row below itself, a command never."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_GAP: Final = re.compile(r"(?<=\S) {2,}(?=\S)")
_COMMAND: Final = re.compile(
    r" *(?:remedy: +|do +|-> +|- +|[0-9]+\. +)?"
    r"(?:\$|cd|export|helm|journalctl|kubectl|make|nvidia-smi|sudo|systemctl|tonnage) "
)
_MARGIN: Final = 4
_NARROWEST: Final = 24
"""A column narrower than this is not wrapped: a word a line is not read."""


def wrapped(text: str, width: int) -> str:
    """The text with no line of more than `width` columns, but for long words, tables and commands.

    >>> print(wrapped("  remedy: free one of the devices, or wait", 30))
      remedy: free one of the
          devices, or wait
    >>> print(wrapped("driver    FAILS   the driver does not answer at all", 42))
    driver    FAILS   the driver does not
                      answer at all
    """
    return "\n".join(part for row in text.split("\n") for part in _parts(row, width))


def _parts(row: str, width: int) -> Iterator[str]:
    plain = _COLOUR.sub("", row)
    if len(plain) <= width or _COMMAND.match(plain):
        yield row
        return
    columns = [gap.end() for gap in _GAP.finditer(plain)]
    first = len(plain) - len(plain.lstrip(" "))
    margin = first + _MARGIN
    if columns and columns[-1] <= width - _NARROWEST:
        first = margin = columns[-1]
    elif len(columns) > 1 or margin > width - _NARROWEST:
        yield row
        return
    yield from _filled(row, first, margin, width)


def _filled(row: str, first: int, margin: int, width: int) -> Iterator[str]:
    """As many words on a line as there is room for, from column `first` on, later at `margin`."""
    start = _offset(row, first)
    filled, columns = row[:start], first
    empty = True
    for word in row[start:].split(" "):
        size = len(_COLOUR.sub("", word))
        if not empty and columns + 1 + size > width:
            yield filled.rstrip(" ")
            filled, columns, empty = " " * margin, margin, True
        filled, columns = (
            (f"{filled}{word}", columns + size) if empty else (f"{filled} {word}", columns + 1 + size)
        )
        empty = False
    yield filled.rstrip(" ")


def _offset(row: str, column: int) -> int:
    """Where a column begins in a row that has colours, which take none."""
    at = 0
    while True:
        colour = _COLOUR.match(row, at)
        if colour is not None:
            at = colour.end()
        elif column == 0:
            return at
        else:
            at, column = at + 1, column - 1
