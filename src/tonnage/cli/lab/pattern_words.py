"""What a lab's pattern looks for, as a person reads it: the text, with `…` for what varies."""

from __future__ import annotations

import re
from typing import Final

_VARYING: Final = "…"
_PIECE: Final = re.compile(
    r"""
    (?P<blank>\\s | [ ])
    | (?P<edge>\\[AbBz] | \^ | \$)
    | (?P<varies>\\[A-Za-z] | \[(?:\\.|[^\]\\]){2,}\])
    | \[(?P<lone>[^\]\\^])\]
    | \\(?P<escaped>[^A-Za-z0-9])
    | (?P<plain>[^\\\[\](){}+*?|^$])
    """,
    re.VERBOSE,
)
_TIMES: Final = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??")
_FLAGS: Final = re.compile(r"^\(\?[a-z]+\)")


def pattern_words(pattern: str) -> str:
    r"""An expectation in words.

    >>> pattern_words(r"^GPU-[0-9a-f-]{36}$")
    'has the line GPU-…'
    >>> pattern_words(r"^nvidia\.com/gpu +32")
    'has a line that begins with nvidia.com/gpu 32'
    >>> pattern_words(r"^(8|16)$"), pattern_words("running")
    ('has the line 8 or 16', 'shows running')
    """
    text = _FLAGS.sub("", pattern)
    begins, ends = text.startswith("^"), text.endswith("$") and not text.endswith(r"\$")
    words = _text_of(text[begins : len(text) - ends]) or "(nothing)"
    match begins, ends:
        case True, True:
            return f"has the line {words}"
        case True, False:
            return f"has a line that begins with {words}"
        case False, True:
            return f"has a line that ends with {words}"
        case _:
            return f"shows {words}"


def _text_of(pattern: str) -> str:
    """The pattern's fixed text; repeated blanks are one, and what varies is one `…`."""
    parts: list[str] = []
    place = 0
    while place < len(pattern):
        part, place = _group(pattern, place) if pattern[place] == "(" else _piece(pattern, place)
        times = _TIMES.match(pattern, place)
        if times is not None:
            part = part if part == " " else _VARYING
            place = times.end()
        parts.append(part)
    return re.sub(f"{_VARYING}(?: ?{_VARYING})+", _VARYING, re.sub(" +", " ", "".join(parts))).strip()


def _piece(pattern: str, place: int) -> tuple[str, int]:
    """A character of the pattern as it is read, and where the next one stands."""
    piece = _PIECE.match(pattern, place)
    if piece is None:
        return (" or " if pattern[place] == "|" else _VARYING), place + 1
    if piece["blank"]:
        return " ", piece.end()
    if piece["edge"]:
        return "", piece.end()
    return piece["lone"] or piece["escaped"] or piece["plain"] or _VARYING, piece.end()


def _group(pattern: str, place: int) -> tuple[str, int]:
    """A group: its alternatives where they are plain words, else `…`."""
    end = _end_of_group(pattern, place)
    inside = pattern[place + 1 : end - 1]
    inside = inside.removeprefix("?:")
    plain = re.fullmatch(r"[\w ,:/-]+(?:\|[\w ,:/-]+)*", inside)
    return (" or ".join(inside.split("|")) if plain else _VARYING), end


def _end_of_group(pattern: str, place: int) -> int:
    depth, escaped, in_class = 0, False, False
    for index in range(place, len(pattern)):
        character = pattern[index]
        if escaped or character == "\\":
            escaped = not escaped
        elif in_class or character == "[":
            in_class = character != "]"
        else:
            depth += {"(": 1, ")": -1}.get(character, 0)
            if not depth:
                return index + 1
    return len(pattern)
