"""JSON as a terminal may have it: what is not printable is written as an escape of JSON."""

from __future__ import annotations

from codecs import register_error
from typing import Final

from tonnage.model.printable import is_printable

_HANDLER: Final = "printable JSON"


def printable_json(text: str) -> bytes:
    r"""A JSON document that means the same, in UTF-8, with escapes for what is not printable.

    >>> printable_json('{"a": "\u202eb", "c": "\x7f"}')
    b'{"a": "\\u202eb", "c": "\\u007f"}'
    """
    register_error(_HANDLER, _json_run)  # the encoder passes over ASCII far faster than a pattern does
    return text.encode("ascii", _HANDLER).replace(b"\x7f", b"\\u007f")


def _json_run(error: UnicodeError) -> tuple[bytes, int]:
    """What stands for some code points beyond ASCII, and where to go on."""
    assert isinstance(error, UnicodeEncodeError)
    run = error.object[error.start : error.end]
    written = run if is_printable(run) else "".join(c if is_printable(c) else _json_escape(c) for c in run)
    return written.encode(), error.end


def _json_escape(c: str) -> str:
    units = c.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
