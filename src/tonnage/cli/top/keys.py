"""What a terminal sends when a key is pressed, as names of keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{f"\x1b{bracket}A": "up" for bracket in "[O"},
        **{f"\x1b{bracket}B": "down" for bracket in "[O"},
        **{f"\x1b{bracket}C": "right" for bracket in "[O"},
        **{f"\x1b{bracket}D": "left" for bracket in "[O"},
        **{f"\x1b{bracket}H": "home" for bracket in "[O"},
        "\x1b[5~": "page-up",
        "\x1b[6~": "page-down",
        "\x1b[1~": "home",
        "\x1bOP": "f1",
        "\x1b[11~": "f1",
        "\x1bOS": "f4",
        "\x1b[14~": "f4",
        "\x1b[17~": "f6",
        "\x1b": "escape",
        "\r": "enter",
        "\n": "enter",
        "\t": "tab",
        "\x7f": "backspace",
        "\x08": "backspace",
        "\x03": "ctrl-c",
    }
)
_LONGEST: Final = max(map(len, _NAMES))


def keys_of(text: str) -> Iterator[str]:
    r"""The keys, in order. A sequence that has no name here is passed over.

    >>> [*keys_of("s\x1b[A\x1b[99~q")]
    ['s', 'up', 'q']
    """
    while text:
        length = next((n for n in range(min(_LONGEST, len(text)), 0, -1) if text[:n] in _NAMES), 1)
        key = _NAMES.get(text[:length], text[:length])
        if key == "escape" and text[1:2] in ("[", "O"):
            end = next((n for n, sign in enumerate(text[2:], 3) if sign.isalpha() or sign == "~"), len(text))
            text = text[end:]
            continue
        text = text[length:]
        yield key
