"""JSON text as a wire object, where the text is somebody else's."""

from __future__ import annotations

from typing import Any, Final

import msgspec

UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec's decoders raise: no JSON or of another shape, no UTF-8, nested too deeply."""


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
