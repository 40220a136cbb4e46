"""The commands that a page shows in its `console` blocks, and what it says that they print.

Every line shown under a command must be in what the command prints, in that order; `…` stands for anything,
runs of blanks are one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """A command of a page and the lines shown under it."""

    command: str
    shown: tuple[str, ...]


def examples_of(text: str) -> list[Example]:
    found: list[Example] = []
    for block in re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = piece.rstrip("\n").split("\n")
            found.append(Example(command, tuple(line for line in shown if line.strip("… "))))
    return found


def _pattern(line: str) -> re.Pattern[str]:
    words = " ".join(line.split())
    return re.compile(".*".join(re.escape(part.strip()) for part in words.split("…")).replace(r"\ ", " "))


def missing_lines(example: Example, printed: str) -> list[str]:
    """Lines that are shown but were not printed, or not in this order."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    missing, at = [], 0
    for shown in example.shown:
        place = next((i for i in range(at, len(lines)) if _pattern(shown).fullmatch(lines[i])), None)
        if place is None:
            missing.append(shown)
        else:
            at = place + 1
    return missing
