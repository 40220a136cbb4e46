"""Drawings that commands put into pages, between two marks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_END: Final = "<!-- end of the drawing -->\n"


def redrawn(page: Path, command: str, drawing: str) -> str:
    """The page's text with this drawing in the place of the one that the command drew before."""
    return between(page.read_text(encoding="utf-8"), f"<!-- drawn by {command} -->\n", _END, drawing)


def between(text: str, begin: str, end: str, drawing: str) -> str:
    """The text with this drawing in the place of what stands between two marks."""
    before, mark, rest = text.partition(begin)
    assert mark, f"there is no line {begin!r}"
    return f"{before}{begin}{drawing}{end}{rest.partition(end)[2]}"
