"""What changes in a text, as `diff -u` shows it."""

from __future__ import annotations

import difflib


def unified_diff(before: str, after: str, name: str) -> str:
    """The diff of a file; empty where nothing changes.

    >>> unified_diff("a\\n", "b", "x").splitlines()[-3:]
    ['-a', '+b', '\\\\ No newline at end of file']
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(
        text if text.endswith("\n") else f"{text}\n\\ No newline at end of file\n"
        for text in difflib.unified_diff(old, new, name, name)
    )
