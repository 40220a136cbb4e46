"""JSON values as Go prints them."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from tonnage.model.json import JsonObject, JsonValue

_PLAIN: Final = range(-4, 6)
"""Powers of ten of numbers that stand without one."""


def go_map(obj: JsonObject) -> str:
    """An object as Go prints a map: keys in order, `map[a:1 b:x]`."""
    return f"map[{' '.join(f'{key}:{go_value(obj[key])}' for key in sorted(obj))}]"


def go_value(value: JsonValue) -> str:
    """A value as `%v` prints it."""
    match value:
        case dict():
            return go_map(value)
        case list():
            return f"[{' '.join(map(go_value, value))}]"
        case bool():
            return "true" if value else "false"
        case None:
            return "<nil>"
        case float():
            return go_float(value)
        case _:
            return str(value)


def go_float(value: float) -> str:
    """A number with a fraction, or beyond 64 bits, as `%v` prints it.

    >>> go_float(1.5), go_float(1e20), go_float(1234567.5), go_float(1e-7)
    ('1.5', '1e+20', '1.2345675e+06', '1e-07')
    """
    if value == 0:
        return "-0" if str(value).startswith("-") else "0"
    exact = Decimal(repr(value)).normalize()
    power = exact.adjusted()
    if power in _PLAIN:
        return f"{exact:f}"
    return f"{exact.scaleb(-power):f}e{power:+03d}"


def go_type(value: JsonValue) -> str:
    """The type that Go's decoder makes of a value, as Go prints it."""
    match value:
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
        case None:
            return "%!s(<nil>)"
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case _:
            return "string"
