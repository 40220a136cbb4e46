"""Names in a row, for a message."""

from __future__ import annotations

from collections.abc import Iterable

MOST_NAMED = 6


def listed(names: Iterable[str], most: int = MOST_NAMED) -> str:
    """Names in a row, of a long list the first and how many more.

    >>> listed(["a", "b", "c"], 2), listed(["a", "b"], 2)
    ('a, b and 1 more', 'a, b')
    """
    shown = list(names)
    return shown_of(shown[:most], len(shown))


def shown_of(shown: list[str], count: int) -> str:
    """Some of so many names.

    >>> shown_of(["a"], 3)
    'a and 2 more'
    """
    return ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")
