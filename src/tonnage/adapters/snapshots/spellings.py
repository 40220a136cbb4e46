r"""A text as it reads once escapes are undone: of JSON, Go, YAML, HTML, URLs and base64, one in another.

Messages quote values in ways that nobody can list (`%q` of a JSON text in a URL), so it is the message that
is decoded, not the value that is encoded.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, unquote_plus

_DEEPEST: Final = 4
"""Encodings one in another that are undone."""
_MOST_CHARACTERS: Final = 1 << 22
_SIMPLE: Final = {
    "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0",
    "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029", "\n": "",
}  # fmt: skip
_BYTE: Final = r"\\(?:x[0-9A-Fa-f]{2}|[0-3][0-7]{2})"
_BYTES: Final = re.compile(rf"(?:{_BYTE})+")
_ESCAPE: Final = re.compile(
    rf"(?P<bytes>(?:{_BYTE})+)|(?P<pair>\\u[dD][89abAB][0-9A-Fa-f]{{2}}\\u[dD][c-fC-F][0-9A-Fa-f]{{2}})"
    r"|\\u(?P<four>[0-9A-Fa-f]{4})|\\U(?P<eight>[0-9A-Fa-f]{8})|\\(?P<one>.)",
    re.DOTALL,
)
_PACKED: Final = re.compile(r"[A-Za-z0-9+/_-]{6,}")
_WHOLLY_PACKED: Final = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_FIRST_OF_URLS_ALPHABET: Final = str.maketrans("-_", "+/")
_BETWEEN: Final = "\0"


@dataclass(frozen=True, slots=True)
class Spellings:
    """All that a text can be read as: `plain` out of escapes, `packed` out of base64 (with garbled ends).

    Readings follow each other with a zero byte between. None: it is too much to look at.
    """

    plain: str | None
    packed: str = ""


@lru_cache(256)
def spellings(text: str) -> Spellings:
    r"""Every reading of a text.

    >>> "a\\b" in spellings(r'exec: "{\\\"k\\\":\\\"a\\\\\\\\b\\\"}"').plain
    True
    >>> "hunter2" in spellings("token=czpodW50ZXIyOg").packed
    True
    """
    plain, packed = {text: None}, dict[str, None]()
    fresh, opened, left = [text], list[str](), _MOST_CHARACTERS
    for _ in range(_DEEPEST):
        inner = [*map(_unpacked, (*fresh, *opened)), *_undone(opened)]
        fresh = [reading for reading in _undone(fresh) if reading not in plain]
        opened = [reading for reading in dict.fromkeys(inner) if reading and reading not in packed]
        plain.update(dict.fromkeys(fresh))
        packed.update(dict.fromkeys(opened))
        left -= sum(map(len, fresh)) + sum(map(len, opened))
        if left < 0:
            return Spellings(None)
    return Spellings(_BETWEEN.join(plain), _BETWEEN.join(packed))


def readings(text: str) -> tuple[str, ...]:
    """What a whole text can stand for: itself first, then what it is when decoded as a whole.

    >>> readings("aHVudGVyMg==")
    ('aHVudGVyMg==', 'hunter2')
    """
    all_readings, fresh = {text: None}, [text]
    for _ in range(_DEEPEST):
        made = [step(reading) for reading in fresh for step in (*_STEPS, _unpacked_whole)]
        fresh = [reading for reading in dict.fromkeys(made) if reading not in all_readings]
        all_readings.update(dict.fromkeys(fresh))
        if not fresh:
            break
    return tuple(all_readings)


def _undone(texts: list[str]) -> list[str]:
    """What each step makes of texts, each once."""
    return list(dict.fromkeys(step(reading) for reading in texts for step in _STEPS))


def _unescaped(text: str, encoding: str) -> str:
    if "\\" not in text:
        return text

    def meant(match: re.Match[str]) -> str:
        if match["bytes"]:
            return _of_bytes(match["bytes"], encoding)
        if match["pair"]:
            high, low = (int(part, 16) for part in (match["pair"][2:6], match["pair"][8:]))
            return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
        number = match["four"] or match["eight"]
        if number:
            return chr(int(number, 16)) if int(number, 16) < 0x110000 else match[0]
        return _SIMPLE.get(match["one"], match["one"])

    return _ESCAPE.sub(meant, text)


def _of_bytes(escapes: str, encoding: str) -> str:
    """Escaped bytes: of UTF-8, or each a character."""
    pieces = re.findall(r"x([0-9A-Fa-f]{2})|([0-3][0-7]{2})", escapes)
    raw = bytes(int(hexadecimal, 16) if hexadecimal else int(octal, 8) for hexadecimal, octal in pieces)
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _unquoted(text: str) -> str:
    """Quotes within single quotes, of YAML and of a shell."""
    return text.replace("'\\''", "'").replace("'\"'\"'", "'").replace("''", "'")


def _unpacked(text: str) -> str:
    """All that could be base64, at each of the four places where a group may begin."""
    runs = (run[0].translate(_FIRST_OF_URLS_ALPHABET) for run in _PACKED.finditer(text))
    return _BETWEEN.join(_decoded(run[at:]).decode("utf-8", "replace") for run in runs for at in range(4))


def _unpacked_whole(text: str) -> str:
    """The text out of base64, when it is nothing else; itself when not."""
    if not _WHOLLY_PACKED.fullmatch(text):
        return text
    try:
        opened = _decoded(text.rstrip("=").translate(_FIRST_OF_URLS_ALPHABET)).decode()
    except UnicodeDecodeError:
        return text
    return opened or text


def _decoded(run: str) -> bytes:
    """Base64 without padding; a character too many at the end is left out."""
    whole = run[:-1] if len(run) % 4 == 1 else run
    try:
        return base64.b64decode(whole + "=" * (-len(whole) % 4))
    except binascii.Error:  # pragma: no cover - the run holds letters of base64 alone
        return b""


_STEPS: Final[tuple[Callable[[str], str], ...]] = (
    lambda text: _unescaped(text, "utf-8"),
    lambda text: _unescaped(text, "latin-1") if _BYTES.search(text) else text,
    lambda text: unquote(text) if "%" in text else text,
    lambda text: unquote_plus(text) if "%" in text or "+" in text else text,
    lambda text: html.unescape(text) if "&" in text else text,
    _unquoted,
)
