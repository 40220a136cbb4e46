"""Spans of time as Go writes them: `1h30m`, `-1.5s`, `0`.

Source: package time of Go 1.25 (ParseDuration).
"""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>[^.0-9]*)")
_UNITS_NS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # the micro sign
    "μs": 10**3,  # the Greek letter
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_DIGITS: Final = 19
"""The most that Go's numbers have."""
_LONGEST_NS: Final = (1 << 63) - 1


def nanoseconds(text: str) -> int:
    """How long a span is.

    >>> nanoseconds("1h30m"), nanoseconds("-1.5us"), nanoseconds("0")
    (5400000000000, -1500, 0)

    Raises:
        ValueError: it is none, in Go's words.
    """
    at = 1 if text[:1] in ("-", "+") else 0
    if text[at:] == "0":
        return 0
    invalid = ValueError(f"time: invalid duration {_quoted(text)}")
    if at == len(text):
        raise invalid
    total = 0
    while at < len(text):
        part = _PART.match(text, at)
        assert part is not None
        whole, fraction, unit = part["whole"].lstrip("0"), (part["fraction"] or "")[:_DIGITS], part["unit"]
        if int(fraction or 0) > _LONGEST_NS + 1:
            fraction = fraction[:-1]
        if not (part["whole"] or fraction) or len(whole) > _DIGITS or int(whole or 0) > _LONGEST_NS + 1:
            raise invalid
        if not unit:
            raise ValueError(f"time: missing unit in duration {_quoted(text)}")
        if unit not in _UNITS_NS:
            raise ValueError(f"time: unknown unit {_quoted(unit)} in duration {_quoted(text)}")
        scale = _UNITS_NS[unit]
        total += int(whole or 0) * scale + int(int(fraction or 0) * (scale / 10 ** len(fraction)))
        if total > _LONGEST_NS + text.startswith("-"):
            raise invalid
        at = part.end()
    return -total if text.startswith("-") else total


def _quoted(text: str) -> str:
    """A text as the package quotes it: bytes that are not printable ASCII by their numbers."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').encode(errors="replace")
    shown = "".join(chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}" for byte in escaped)
    return f'"{shown}"'
