"""JSON text as a wire object, where the text is somebody else's."""

from __future__ import annotations

from typing import Any

import msgspec


def decoded_json(text: bytes | str, kind: Any) -> Any:
    """The text as `kind`. Raises msgspec.DecodeError, a ValueError, also where it is nested too deeply.

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
