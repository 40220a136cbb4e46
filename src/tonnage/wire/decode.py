"""JSON text as a wire object, where the text is somebody else's."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec's decoders raise: no JSON or of another shape, no UTF-8, nested too deeply."""

_DEEPEST: Final = 400
"""Objects of Kubernetes are a dozen levels deep; msgspec and Python take some 900."""
_BRACKET: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)
"""A bracket, or a string, in which none counts: one without an end goes to the end, at once."""


def without_depths(content: bytes, deepest: int = _DEEPEST) -> bytes:
    """The JSON text with null in the place of what is nested deeper.

    A server takes 10,000 levels: an object of whoever may write one must not hide all others of a list.

    >>> without_depths(b'{"a":[{"b":"}"},{}],"c":{}}', 2)
    b'{"a":[null,null],"c":{}}'
    """
    parts, start, depth = list[bytes](), 0, 0
    for match in _BRACKET.finditer(content):
        bracket = match[0]
        if bracket in b"[{":
            depth += 1
            if depth == deepest + 1:
                parts += (content[start : match.start()], b"null")
        elif bracket in b"]}":
            depth -= 1
            if depth == deepest:
                start = match.end()
    return b"".join((*parts, content[start:]))


def decoded_json(text: bytes | str, kind: Any) -> Any:
    """The text as `kind`. Raises msgspec.DecodeError, a ValueError, also for no UTF-8 and too deep nesting.

    >>> decoded_json(b"[1, 2]", tuple[int, ...])
    (1, 2)
    >>> decoded_json("[" * 100_000, object)
    Traceback (most recent call last):
    msgspec.DecodeError: nested too deeply
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        raise msgspec.DecodeError("nested too deeply") from None
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} is {error.object[error.start]:#04x}"
        raise msgspec.DecodeError(f"not UTF-8: {byte}") from None
