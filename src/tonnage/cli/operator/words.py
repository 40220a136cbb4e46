"""Labels that are to change, in words."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.model.json import JsonValue


def label_words(changes: Iterable[tuple[str, JsonValue]]) -> str:
    """The changes of labels in a line; None takes one away.

    >>> label_words([("a/b", "true"), ("a/c", None)])
    'a/b=true, remove a/c'
    """
    return ", ".join(f"remove {key}" if value is None else f"{key}={value}" for key, value in changes)
