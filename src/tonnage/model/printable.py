"""Text that a terminal shows as it stands: what steers it, hides or reorders text is written as an escape.

Refused is what `str.isprintable` refuses: controls (C0, DEL, C1), formats (bidirectional controls, zero
width), separators but the blank, lone surrogates, private use and what Unicode has not assigned; and letters
and marks that show nothing. Made printable twice, a text is as it was after the first time.
"""

from __future__ import annotations

import re
from typing import Final

_SHOW_NOTHING: Final = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef"
)
"""Ignorable code points that count as printable; not the two selectors that choose between text and emoji.

Source: Unicode 15, DerivedCoreProperties.txt, Default_Ignorable_Code_Point.
"""
_INVISIBLE: Final = re.compile(f"[{_SHOW_NOTHING}]")


def is_printable(text: str) -> bool:
    """Whether nothing of it steers a terminal or hides; a newline does.

    >>> is_printable("größer"), is_printable("a\\x9b2J"), is_printable("a\\u202eb"), is_printable("a\\nb")
    (True, False, False, False)
    """
    return text.isprintable() and (text.isascii() or _INVISIBLE.search(text) is None)


def printable_line(text: str) -> str:
    """The text on one line.

    >>> printable_line("a\\x1b[2J\\nb")
    'a\\\\x1b[2J\\\\nb'
    """
    if is_printable(text):
        return text
    return "".join(c if is_printable(c) else ascii(c)[1:-1] for c in text)


def printable_text(text: str) -> str:
    """The same of a text of several lines.

    >>> printable_text("a\\x1b[2J\\nb")
    'a\\\\x1b[2J\\nb'
    """
    return text if is_printable(text) else "\n".join(map(printable_line, text.split("\n")))
