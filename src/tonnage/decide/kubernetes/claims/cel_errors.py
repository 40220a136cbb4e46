"""How an expression can come to nothing."""

from __future__ import annotations

from typing import Final

TOO_LONG: Final = "operation cancelled: actual cost limit exceeded"
"""Of an expression that costs too much while it runs."""


class CelError(Exception):
    """An expression failed on a device; the text is cel-go's."""


class CompileError(CelError):
    """The text is no expression, or not one that says yes or no."""


class CelUnsupportedError(Exception):
    """The expression is, or may be, right, and cannot be evaluated here; says by what."""
