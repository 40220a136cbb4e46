"""Kubernetes quantities: exact numbers with an optional SI or binary suffix.

Source: k8s.io/apimachinery/pkg/api/resource (serialisation format, canonical form).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIXES: Final = {0: "", **{exponent: suffix for suffix, exponent in _BINARY.items()}}
_FORM: Final = re.compile(
    r"(?P<sign>[+-]?)0*(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)",
    re.ASCII,
)
_EXPONENT: Final = re.compile(r"[eE][+-]?[0-9]+", re.ASCII)
_NANO: Final = Fraction(1, 10**9)
_LONGEST: Final = 64
_LARGEST_EXPONENT: Final = 99
_INT64: Final = (1 << 63) - 1
_WRONG_FORMAT: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"


@dataclass(frozen=True, slots=True)
class _Quantity:
    """What a text says. `canonical`: short and tidy, so that the server writes it back as it was written."""

    value: Fraction
    format: str
    scale: int
    canonical: bool


def parse_quantity(text: str) -> Fraction:
    """Exact value of a quantity; finer than a nano unit is rounded up, as Kubernetes does.

    >>> parse_quantity("1500m"), parse_quantity("1Ki"), parse_quantity("1e3")
    (Fraction(3, 2), Fraction(1024, 1), Fraction(1000, 1))

    Raises:
        ValueError: the text is no quantity.
    """
    return _read(text).value


@lru_cache(maxsize=4096)
def milli_value(text: str) -> int:
    """The quantity in thousandths, rounded up: how the scheduler counts CPU.

    >>> milli_value("0.1"), milli_value("2")
    (100, 2000)
    """
    scaled = parse_quantity(text) * 1000
    return -(-scaled.numerator // scaled.denominator)


@lru_cache(maxsize=4096)
def integer_value(text: str) -> int:
    """The quantity in whole units, rounded up: how the scheduler counts everything but CPU.

    >>> integer_value("1Gi"), integer_value("8")
    (1073741824, 8)
    """
    value = parse_quantity(text)
    return -(-value.numerator // value.denominator)


def canonical_quantity(text: str) -> str:
    """The quantity as the API server writes it back: no fraction, the largest suffix that keeps it exact.

    A short text that needs no other suffix stays as it is, even with a plus sign or a trailing zero.

    >>> [canonical_quantity(q) for q in ("0.5", "1000m", "1024Mi", "1.5Gi", "100000", "+5")]
    ['500m', '1', '1Gi', '1536Mi', '100k', '+5']
    """
    read = _read(text)
    return text if read.canonical else _written(read.value, read.format)


def round_up_milli(text: str) -> str:
    """The canonical quantity in whole thousandths, rounded up: what the server keeps of a resource's amount.

    >>> round_up_milli("0.0001"), round_up_milli("1Gi")
    ('1m', '1Gi')
    """
    read = _read(text)
    if read.canonical and read.scale >= -3:
        return text
    return _written(_away_from_zero(read.value, Fraction(1, 1000)), read.format)


def quantity_format(text: str) -> str:
    """How a quantity is written: `decimal`, `binary` or `exponent`. Raises ValueError.

    >>> quantity_format("500m"), quantity_format("1Gi")
    ('decimal', 'binary')
    """
    return _read(text).format


def write_quantity(value: Fraction, form: str = "decimal") -> str:
    """A value in canonical spelling.

    >>> write_quantity(Fraction(1, 2)), write_quantity(Fraction(2048), "binary")
    ('500m', '2Ki')
    """
    return _written(value, form)


def write_device_quantity(value: Fraction) -> str:
    """An amount of a device's capacity: by powers of 1024 where it is whole Mi.

    >>> write_device_quantity(Fraction(20 << 30)), write_device_quantity(Fraction(4))
    ('20Gi', '4')
    """
    return _written(value, "binary" if value and value % (1 << 20) == 0 else "decimal")


@lru_cache(maxsize=4096)
def _read(text: str) -> _Quantity:
    match = _FORM.fullmatch(text) if 0 < len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(_WRONG_FORMAT)
    whole, part, suffix = match["whole"] or "0", match["part"] or "", match["suffix"]
    if suffix in _BINARY:
        form, power = "binary", _BINARY[suffix]
    elif suffix in _DECIMAL:
        form, power = "decimal", _DECIMAL[suffix]
    elif _EXPONENT.fullmatch(suffix):
        form, power = "exponent", max(-_LARGEST_EXPONENT, min(_LARGEST_EXPONENT, int(suffix[1:])))
    else:
        raise ValueError(_WRONG_SUFFIX)
    if match.end("part" if match["part"] is not None else "whole") == match.end("sign"):
        raise ValueError(_WRONG_FORMAT)
    digits = Fraction(int(whole + part), 10 ** len(part))
    value = digits * ((1 << power) if form == "binary" else Fraction(10) ** power)
    signed = -value if match["sign"] == "-" else value
    scale = (0 if form == "binary" else power) - len(part)
    if _is_short(form, power, whole, part) and scale >= -9 and int(whole + part) <= _INT64:
        return _Quantity(signed, form, scale, _is_tidy(form, scale, whole + part))
    return _Quantity(_bounded(signed, form), _shown(form, value), scale, canonical=False)


def _shown(form: str, value: Fraction) -> str:
    """A binary fraction of one is shown in decimal."""
    return "decimal" if form == "binary" and abs(value) < 1 else form


def _is_short(form: str, power: int, whole: str, part: str) -> bool:
    """Whether the server reads the text into 64 bits without a detour, on which it would lose the text."""
    if form != "binary":
        return len(whole) + len(part) <= 18
    return not part and len(whole) + power * 3 // 10 + 1 <= 15


def _is_tidy(form: str, scale: int, digits: str) -> bool:
    if form == "binary":
        return int(digits) % 8 != 0
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _bounded(value: Fraction, form: str) -> Fraction:
    """Rounded to nano units, and no binary quantity beyond 64 bits."""
    rounded = _away_from_zero(value, _NANO)
    return max(Fraction(-_INT64), min(Fraction(_INT64), rounded)) if form == "binary" else rounded


def _away_from_zero(value: Fraction, unit: Fraction) -> Fraction:
    steps = value / unit
    whole = -(-abs(steps.numerator) // steps.denominator)
    return (whole if steps > 0 else -whole) * unit


def _written(value: Fraction, form: str) -> str:
    if value == 0:
        return "0"
    if form == "binary" and abs(value) >= 1024 and value.denominator == 1:
        exponent = max(e for e in _BINARY_SUFFIXES if value.numerator % (1 << e) == 0)
        return f"{value.numerator // (1 << exponent)}{_BINARY_SUFFIXES[exponent]}"
    exponent = -9
    while (value / Fraction(10) ** (exponent + 3)).denominator == 1 and (form == "exponent" or exponent < 18):
        exponent += 3
    mantissa = (value / Fraction(10) ** exponent).numerator
    if form == "exponent":
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_SUFFIXES[exponent]}"
