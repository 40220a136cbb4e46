"""`string.format` as the server has it, whose lists and maps quote the texts in them.

Source: cel-go v0.26 ext/formatting.go (version 2 of the strings library).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol, TypeGuard

from tonnage.decide.kubernetes.claims.cel_errors import CelError
from tonnage.decide.kubernetes.claims.cel_values import type_name

_DIGITS: Final = 6
_MOST_DIGITS: Final = 1_000_000
_CLAUSE: Final = re.compile(r"%(%|(?:\.(\d+))?([a-zA-Z]))|%")
_RAISED: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_INFINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def formatted(text: object, values: object) -> str:
    """A text with its clauses filled.

    >>> formatted("%s has %d: %s", ["a", 2, ["x", {"y": None}]])
    'a has 2: ["x", {"y":null}]'
    """
    if not isinstance(text, str) or not isinstance(values, list):
        raise CelError("no such overload")
    left = list(values)

    def filled(clause: re.Match[str]) -> str:
        if clause[1] == "%":
            return "%"
        kind = clause[3]
        if not left:
            raise CelError(_too_few(len(values)))
        write = _WRITERS.get(kind or "")
        if write is None:
            raise CelError(_no_clause(kind))
        return write(left.pop(0), min(int(clause[2] or _DIGITS), _MOST_DIGITS))

    return _CLAUSE.sub(filled, text)


def _string(value: object, _: int = 0) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | str():
            return str(value)
        case float():
            return _number(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).decode(errors="replace")
        case datetime():
            whole, dot, part = value.astimezone(UTC).isoformat().removesuffix("+00:00").partition(".")
            return f"{whole}{dot}{part.rstrip('0')}Z"
        case timedelta():
            return f"{_number(value.total_seconds())}s"
        case list():
            return f"[{', '.join(_held(inner) for inner in value)}]"
        case Mapping():
            pairs = sorted((_held(key), _held(inner)) for key, inner in value.items())
            return "{" + ", ".join(f"{key}:{inner}" for key, inner in pairs) + "}"
        case _ if _is_type(value):
            return str(value.name()).lower()
        case _:
            raise CelError(wrong_clause("s", type_name(value)))


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    short = repr(value).removesuffix(".0")
    return f"{value:.0f}" if "e+" in short and abs(value) < 1e21 else short


def _held(value: object) -> str:
    """What a list or a map holds, as an expression would write it."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bytes() | bytearray() | memoryview():
            return f"b{json.dumps(_string(value), ensure_ascii=False)}"
        case float():
            return f"{value:.{_DIGITS}f}" if math.isfinite(value) else f'"{_number(value)}"'
        case datetime():
            return f'timestamp("{_string(value)}")'
        case timedelta():
            return f'duration("{_string(value)}")'
        case _ if _is_type(value):
            return f"type({_string(value)})"
        case _:
            return _string(value)


class _Type(Protocol):
    """A type as a value."""

    def name(self) -> str: ...


def _is_type(value: object) -> TypeGuard[_Type]:
    return callable(getattr(value, "is_assignable_from", None))


def _whole(form: str) -> Callable[[object, int], str]:
    def written(value: object, _: int) -> str:
        if isinstance(value, bool) and form == "b":
            return str(int(value))
        if isinstance(value, str | bytes | bytearray | memoryview) and form in "xX":
            digits = (value.encode() if isinstance(value, str) else bytes(value)).hex()
            return digits.upper() if form == "X" else digits
        if not isinstance(value, int) or isinstance(value, bool):
            raise CelError(wrong_clause(form, type_name(value)))
        return format(value, form)

    return written


def _double(form: str) -> Callable[[object, int], str]:
    def written(value: object, precision: int) -> str:
        number = _INFINITE.get(value, value) if isinstance(value, str) else value
        if not isinstance(number, float):
            raise CelError(wrong_clause(form, type_name(value)))
        if not math.isfinite(number):
            return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"
        if form == "f":
            return format(number, f",.{precision}f")
        digits, _, power = format(number, f".{_DIGITS}e").partition("e")
        return f"{digits}×10{power.removeprefix('+').translate(_RAISED)}"

    return written


_CLAUSES: Final = {
    "s": ("string", "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"),
    "d": ("decimal", "integers"),
    "b": ("binary", "integers and bools"),
    "o": ("octal", "integers"),
    "x": ("hex", "integers, byte buffers, and strings"),
    "X": ("hex", "integers, byte buffers, and strings"),
    "f": ("fixed-point", "doubles"),
    "e": ("scientific", "doubles"),
}
_INTEGERS: Final = frozenset({"int", "uint", "dyn"})
_CONVERSIONS: Final = {
    "s": _INTEGERS | {"string", "bool", "bytes", "double", "duration", "timestamp", "null"},
    "d": _INTEGERS,
    "b": _INTEGERS | {"bool"},
    "o": _INTEGERS,
    "x": _INTEGERS | {"bytes", "string"},
    "X": _INTEGERS | {"bytes", "string"},
    "f": frozenset({"double", "string", "dyn"}),
    "e": frozenset({"double", "string", "dyn"}),
}


def wrong_clause(form: str, kind: str) -> str:
    """What is said of a value of this type in such a clause."""
    name, others = _CLAUSES[form]
    return f"error during formatting: {name} clause can only be used on {others}, was given {kind}"


def wrong_format(text: str, kinds: Sequence[str]) -> tuple[int | None, str] | None:
    """The first fault of a text with clauses and of values of these types: which value's, and the words."""
    clauses = [clause[3] or "" for clause in _CLAUSE.finditer(text) if clause[1] != "%"]
    for index, form in enumerate(clauses):
        if index >= len(kinds):
            return None, _too_few(index)
        if form not in _CONVERSIONS:
            return None, _no_clause(form)
        kind = kinds[index]
        many = form == "s" and kind.partition("(")[0] in ("list", "map", "type")
        if kind not in _CONVERSIONS[form] and not many:
            return index, wrong_clause(form, kind)
    if len(kinds) > len(clauses):
        counts = f"(expected {len(clauses)}, got {len(kinds)})"
        return None, f"too many arguments supplied to string.format {counts}"
    return None


def _too_few(index: int) -> str:
    return f"index {index} out of range"


def _no_clause(form: str) -> str:
    return f'could not parse formatting clause: unrecognized formatting clause "{form}"'


_WRITERS: Final[Mapping[str, Callable[[object, int], str]]] = {
    "s": _string,
    "d": _whole("d"),
    "b": _whole("b"),
    "o": _whole("o"),
    "x": _whole("x"),
    "X": _whole("X"),
    "f": _double("f"),
    "e": _double("e"),
}
