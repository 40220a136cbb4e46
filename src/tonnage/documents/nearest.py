"""What somebody may have meant who wrote a word that is not known."""

from __future__ import annotations

import difflib


def nearest(word: str, candidates: list[str]) -> str:
    """A remedy that names the most similar known word, or all of them when none is similar."""
    if near := nearest_word(word, candidates):
        return f"use {near} if you meant that"
    if len(candidates) == 1:
        return f"use {candidates[0]}"
    return f"use one of: {', '.join(sorted(candidates)[:20])}" if candidates else ""


def nearest_word(word: str, candidates: list[str]) -> str:
    """The most similar known word; empty when none is similar.

    >>> nearest_word("Replicas", ["name", "replicas"]), nearest_word("x", ["name"])
    ('replicas', '')
    """
    lower = word.lower()
    close = [name for name in candidates if name.lower() == lower]
    close += [name for name in candidates if len(word) > 2 and name.lower().startswith(lower)]
    close += difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)
    return close[0] if close else ""
