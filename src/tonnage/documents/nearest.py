"""What somebody may have meant who wrote a word that is not known."""

from __future__ import annotations

import difflib


def nearest(word: str, candidates: list[str]) -> str:
    """A remedy that names the most similar known word, or all of them when none is similar."""
    lower = word.lower()
    close = [name for name in candidates if name.lower() == lower]
    close += [name for name in candidates if len(word) > 2 and name.lower().startswith(lower)]
    close += difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)
    if close:
        return f"use {close[0]} if you meant that"
    if len(candidates) == 1:
        return f"use {candidates[0]}"
    return f"use one of: {', '.join(sorted(candidates)[:20])}" if candidates else ""
