"""Kubernetes quantities: exact numbers with an optional SI or binary suffix.

Source: k8s.io/apimachinery/pkg/api/resource (serialisation format, canonical form).
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FORM: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?P<suffix>[KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]+)"
)
_NANO: Final = Fraction(1, 10**9)
_LONGEST: Final = 64


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Fraction:
    """Exact value of a quantity; finer than a nano unit is rounded up, as Kubernetes does.

    >>> parse_quantity("1500m"), parse_quantity("1Ki"), parse_quantity("1e3")
    (Fraction(3, 2), Fraction(1024, 1), Fraction(1000, 1))

    Raises:
        ValueError: the text is no quantity.
    """
    match = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    number, suffix = Fraction(match["number"].rstrip(".") or "0"), match["suffix"]
    if suffix in _BINARY:
        value = number * (1 << _BINARY[suffix])
    elif suffix in _DECIMAL:
        value = number * Fraction(10) ** _DECIMAL[suffix]
    else:
        value = number * Fraction(10) ** max(-99, min(99, int(suffix[1:])))
    return value if (value / _NANO).denominator == 1 else -(-value // _NANO) * _NANO


def milli_value(text: str) -> int:
    """The quantity in thousandths, rounded up: how the scheduler counts CPU.

    >>> milli_value("0.1"), milli_value("2")
    (100, 2000)
    """
    scaled = parse_quantity(text) * 1000
    return -(-scaled.numerator // scaled.denominator)


def integer_value(text: str) -> int:
    """The quantity in whole units, rounded up: how the scheduler counts everything but CPU.

    >>> integer_value("1Gi"), integer_value("8")
    (1073741824, 8)
    """
    value = parse_quantity(text)
    return -(-value.numerator // value.denominator)


def canonical_quantity(text: str) -> str:
    """The quantity as the API server writes it back: no fraction, the largest suffix that keeps it exact.

    >>> [canonical_quantity(q) for q in ("0.5", "1000m", "1024Mi", "1.5Gi", "100000")]
    ['500m', '1', '1Gi', '1536Mi', '100k']
    """
    match = _FORM.fullmatch(text)
    value = parse_quantity(text)
    if value == 0:
        return "0"
    suffix = match["suffix"] if match else ""
    if suffix in _BINARY and abs(value) >= 1024 and value.denominator == 1:
        exponent = max(e for e in (0, *_BINARY.values()) if value.numerator % (1 << e) == 0)
        name = next((s for s, e in _BINARY.items() if e == exponent), "")
        return f"{value.numerator >> exponent}{name}"
    exponent = max(e for e in _DECIMAL.values() if (value / Fraction(10) ** e).denominator == 1)
    mantissa = (value / Fraction(10) ** exponent).numerator
    if suffix[:1] in ("e", "E") and suffix != "E":
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{next(s for s, e in _DECIMAL.items() if e == exponent)}"
