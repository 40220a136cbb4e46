"""JSON as a server writes it: what a browser could take for markup is escaped.

Source: Go's encoding/json (HTMLEscape), which k8s.io/apimachinery leaves as it is.
"""

from __future__ import annotations

from typing import Final

import msgspec

_ESCAPES: Final = (
    (b"&", b"\\u0026"),
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
"""None of these stands in JSON but in texts."""


def go_json(value: object) -> bytes:
    """The JSON text of a value.

    >>> go_json({"a": "<&>"})
    b'{"a":"\\\\u003c\\\\u0026\\\\u003e"}'
    """
    return escaped(msgspec.json.encode(value))


def escaped(text: bytes) -> bytes:
    """JSON text with what Go escapes in texts escaped."""
    for plain, escape in _ESCAPES:
        text = text.replace(plain, escape)
    return text
