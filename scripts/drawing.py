"""Drawings that commands put into pages, between two marks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_END: Final = "<!-- end of the drawing -->\n"


def redrawn(page: Path, command: str, drawing: str) -> str:
    """The page's text with this drawing in the place of the one that the command drew before."""
    begin = f"<!-- drawn by {command} -->\n"
    before, mark, rest = page.read_text(encoding="utf-8").partition(begin)
    assert mark, f"{page} has no line {begin!r}"
    return f"{before}{begin}{drawing}{_END}{rest.partition(_END)[2]}"
