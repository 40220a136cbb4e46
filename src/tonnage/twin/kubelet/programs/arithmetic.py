"""Shell arithmetic: integers, names, + - * / % and parentheses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_TOKEN: Final = re.compile(r"\s*(?:(\d{1,18})|\$?([A-Za-z_]\w*)|([-+*/%()]))")
_LARGEST: Final = 1 << 63


def evaluate(text: str, variable: Callable[[str], str]) -> int:
    """The value of an expression; what is no expression is 0.

    >>> evaluate("RANDOM % 5 + 1", lambda name: "7")
    3
    """
    tokens: list[str | int] = []
    at = 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or len(tokens) > 200:
            return 0
        number, name, operator = match.groups()
        if name:
            digits = variable(name).strip()
            tokens.append(int(digits) if digits.isdigit() and len(digits) < 19 else 0)
        else:
            tokens.append(int(number) if number else operator)
        at = match.end()
    return _sum(tokens)[0] if tokens else 0


def _sum(tokens: list[str | int]) -> tuple[int, list[str | int]]:
    value, rest = _product(tokens)
    while rest and rest[0] in {"+", "-"}:
        sign = 1 if rest[0] == "+" else -1
        term, rest = _product(rest[1:])
        value = _wrapped(value + sign * term)
    return value, rest


def _product(tokens: list[str | int]) -> tuple[int, list[str | int]]:
    value, rest = _factor(tokens)
    while rest and rest[0] in {"*", "/", "%"}:
        operator = rest[0]
        factor, rest = _factor(rest[1:])
        if operator == "*":
            value = _wrapped(value * factor)
        elif factor == 0:
            value = 0
        else:
            quotient = abs(value) // abs(factor) * (1 if (value < 0) == (factor < 0) else -1)
            value = quotient if operator == "/" else value - quotient * factor
    return value, rest


def _factor(tokens: list[str | int]) -> tuple[int, list[str | int]]:
    if not tokens:
        return 0, []
    first, rest = tokens[0], tokens[1:]
    if isinstance(first, int):
        return first, rest
    if first == "-":
        value, rest = _factor(rest)
        return -value, rest
    if first == "(":
        value, rest = _sum(rest)
        return value, rest[1:]
    return 0, rest


def _wrapped(value: int) -> int:
    return (value + _LARGEST) % (2 * _LARGEST) - _LARGEST
