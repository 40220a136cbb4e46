"""What somebody may have meant who wrote a word that is not known."""

from __future__ import annotations

import difflib


def nearest(word: str, known: list[str]) -> str:
    """A remedy that names the most similar known word, or all of them when none is similar."""
    lower = word.lower()
    close = [name for name in known if name.lower() == lower]
    close += [name for name in known if len(word) > 2 and name.lower().startswith(lower)]
    close += difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    return f"known here: {', '.join(sorted(known)[:20])}" if known else ""
