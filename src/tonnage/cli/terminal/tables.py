"""Tables that fit the terminal; one that is too wide becomes a paragraph a row."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from tonnage.cli.terminal.output import SafeText, line, lines, terminal_width

_MARGIN: Final = "  "
_BETWEEN: Final = "   "
_NOTHING: Final = ("", "-")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> SafeText:
    """The columns, or where they are too wide for the terminal a paragraph for each row."""
    return fitted_table(head, rows, terminal_width())


def fitted_table(head: Sequence[str], rows: Iterable[Sequence[str]], width: int | None) -> SafeText:
    """The table, or where a line of it has more columns than `width`, rows as paragraphs.

    >>> print(fitted_table(["NODE", "GPUS", "HEALTH"], [["a100-0", "4", "healthy"]], 12))
    a100-0
      gpus 4,
      health
      healthy
    """
    cells = [[*row] for row in rows]
    whole = columns(head, cells)
    if width is None or all(len(row) <= width for row in whole.splitlines()):
        return whole
    return lines(text for row in cells for text in _paragraph(head, row, width))


def columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> SafeText:
    """Columns as kubectl prints them: three blanks between, nothing after the last.

    >>> print(columns(["NODE", "GPUS"], [["a100-0", "4"]]))
    NODE     GPUS
    a100-0   4
    """
    cells = [[line(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return lines(_row(row, widths) for row in cells)


def _row(cells: Sequence[str], widths: Sequence[int]) -> SafeText:
    last = max((number for number, cell in enumerate(cells) if cell), default=0)
    padded = (
        (cell, " " * (width - len(cell)), _BETWEEN) for cell, width in zip(cells[:last], widths, strict=False)
    )
    return line(*(part for parts in padded for part in parts), cells[last])


def _paragraph(head: Sequence[str], row: Sequence[str], width: int) -> Iterable[str]:
    """The first cell, and below it the others with their heads; empty ones are left out."""
    yield str(line(row[0]))
    named = (
        f"{name.lower()} {line(cell)}"
        for name, cell in zip(head[1:], row[1:], strict=True)
        if cell not in _NOTHING
    )
    yield from textwrap.wrap(
        ", ".join(named),
        width,
        initial_indent=_MARGIN,
        subsequent_indent=_MARGIN,
        break_on_hyphens=False,
    )
