"""How an expression can come to nothing."""

from __future__ import annotations


class CelError(Exception):
    """An expression failed on a device; the text is cel-go's."""


class CompileError(CelError):
    """The text is no expression, or not one that says yes or no."""


class UnsupportedError(Exception):
    """The expression is, or may be, right, and cannot be evaluated here; says by what."""
