"""Formats of strings in schemas of custom kinds.

Source: k8s.io/kube-openapi pkg/validation/strfmt (v1.35).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from ipaddress import ip_address
from typing import Final

from tonnage.decide.kubernetes.cel.function_library.urls import url_problem
from tonnage.model.durations import nanoseconds

_LONG_SPAN: Final = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
_LONG_UNITS: Final = (
    (("ns", "nano"), 1),
    (("us", "µs", "micro"), 10**3),
    (("ms", "milli"), 10**6),
    (("s", "sec"), 10**9),
    (("m", "min"), 60 * 10**9),
    (("h", "hr", "hour"), 3600 * 10**9),
    (("d", "day"), 24 * 3600 * 10**9),
    (("w", "wk", "week"), 7 * 24 * 3600 * 10**9),
)
"""What units are called, the last name also with something after it, and how many nanoseconds each has."""
_MAC: Final = re.compile(
    r"[0-9A-F]{2}(?:([:-])[0-9A-F]{2}(?:\1[0-9A-F]{2}){4})(?:(?:\1[0-9A-F]{2}){2}|(?:\1[0-9A-F]{2}){14})?"
    r"|[0-9A-F]{4}\.[0-9A-F]{4}\.[0-9A-F]{4}(?:\.[0-9A-F]{4}|(?:\.[0-9A-F]{4}){7})?",
    re.IGNORECASE,
)
_UUID: Final = r"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{}[0-9a-f]{{3}}-?{}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
_SIGN: Final = r"[$+<=>^`|~\u00a2-\u00a9\u00ac\u00ae-\u00b1\u2030-\u2bff\U0001f000-\U0001faff]"
_LETTER: Final = rf"(?:[^\W_]|{_SIGN})"
_HOST: Final = re.compile(
    rf"{_LETTER}(?:-?{_LETTER}{{0,62}})?"
    rf"|(?:{_LETTER}(?:(?:{_LETTER}|-){{0,61}}{_LETTER})?\.)+[^\W\d_]{{2,63}}"
)
_LONGEST_HOST: Final = 255
_LONGEST_PART: Final = 63
_WORD: Final = r"[\w!#$%&'*+/=?^`{|}~-]+"
_ADDRESS: Final = rf'(?:{_WORD}(?:\.{_WORD})*|"(?:[^"\\]|\\.)*")@(?:{_WORD}(?:\.{_WORD})*|\[[^\[\]\\]*\])'
_EMAIL: Final = re.compile(
    rf'\s*(?:{_ADDRESS}|(?:(?:{_WORD}(?:\s+|\.)?|"(?:[^"\\]|\\.)*"\s*)*<{_ADDRESS}>))\s*'
)
_NAME: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SHORT_NAME: Final = re.compile(rf"(?=.{{1,63}}\Z){_NAME}")
_LONG_NAME: Final = re.compile(rf"(?=.{{1,253}}\Z){_NAME}(?:\.{_NAME})*")
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_COLOUR: Final = r"\s*(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_CARD: Final = re.compile(
    r"4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|(?:2131|1800|35\d{3})\d{11}"
)
_CLOCK: Final = re.compile(r"([0-1]\d|2[0-3]):[0-5]\d:[0-5]\d(?:.\d+)?(?:z|[+-]\d\d:\d\d)", re.ASCII)

_RECOGNIZED: Final = frozenset(
    {"bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "isbn", "isbn10", "isbn13"}
    | {"uuid", "uuid3", "uuid4", "uuid5", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password"}
    | {"date", "duration", "datetime", "k8sshortname", "k8slongname"}
)


def is_recognized(form: str) -> bool:
    """Whether a server knows a format of strings; hyphens do not count, which names of Kubernetes' own have.

    Source: k8s.io/apiextensions-apiserver pkg/apiserver/validation (formats.go), v1.35.
    """
    return form.replace("-", "") in _RECOGNIZED


def has_format(value: str, form: str) -> bool:
    """Whether a string is of a format; of one that nobody knows every string is.

    >>> has_format("2024-13-01", "date"), has_format("x", "nonsense")
    (False, True)
    """
    check = _CHECKS.get(form.replace("-", ""))
    if check is None:
        return True
    try:
        return check(value) is not False
    except ValueError:
        return False


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda value: pattern.fullmatch(value) is not None


def _uuid(version: str, variant: str) -> Callable[[str], bool]:
    return _matches(re.compile(_UUID.format(version, variant), re.IGNORECASE))


def _cidr(value: str) -> bool:
    address, _, bits = value.partition("/")
    most = 128 if ":" in address else 32
    return _is_address(address) and bits.isascii() and bits.isdecimal() and int(bits) <= most


def _is_address(value: str) -> bool:
    """Whether a text is an address; noughts before its numbers do not count."""
    ip_address(re.sub(r"(?<![\da-fA-F:])0+(?=\d)", "", value) if "." in value else value)
    return "%" not in value


def _ipv6(value: str) -> bool:
    return ":" in value and "%" not in value and bool(ip_address(value))


def _moment(value: str) -> bool:
    day, _, rest = value.lower().partition("t")
    return _day(day) and _CLOCK.fullmatch(rest) is not None


def _day(value: str) -> bool:
    return len(value) == len("2024-01-01") and bool(date.fromisoformat(value))


def _host(value: str) -> bool:
    short = len(value.encode()) <= _LONGEST_HOST
    return (
        short
        and all(len(part.encode()) <= _LONGEST_PART for part in value.split("."))
        and (_HOST.fullmatch(value) is not None)
    )


def _card(value: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", value)
    doubled = [int(digit) * (1 + index % 2) for index, digit in enumerate(reversed(digits))]
    return _CARD.fullmatch(digits) is not None and sum(digit - 9 * (digit > 9) for digit in doubled) % 10 == 0


def _isbn10(value: str) -> bool:
    plain = re.sub(r"[\s-]+", "", value)
    if not re.fullmatch(r"\d{9}[\dX]", plain, re.ASCII):
        return False
    return sum(place * (10 if digit == "X" else int(digit)) for place, digit in enumerate(plain, 1)) % 11 == 0


def _isbn13(value: str) -> bool:
    plain = re.sub(r"[\s-]+", "", value)
    if not re.fullmatch(r"\d{13}", plain, re.ASCII):
        return False
    return sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(plain)) % 10 == 0


def span_of(value: str) -> int:
    """How many nanoseconds a text of the format `duration` stands for: `1h30m`, `2 days`.

    >>> span_of("1 week 2 days") // (24 * 3600 * 10**9)
    9

    Raises:
        ValueError: it is no such text.
    """
    try:
        return nanoseconds(value)
    except ValueError:
        spans = [_long_span(number, unit.lower()) for number, unit in _LONG_SPAN.findall(value)]
    readable = [span for span in spans if span is not None]
    if not readable:
        raise ValueError(f"unable to parse {value} as duration")
    return sum(readable)


def _long_span(number: str, unit: str) -> int | None:
    for names, nanos in _LONG_UNITS:
        if unit in names or unit.startswith(names[-1]):
            return int(number) * nanos
    return None


_CHECKS: Final[dict[str, Callable[[str], object]]] = {
    "bsonobjectid": _matches(re.compile(r"[0-9a-fA-F]{24}")),
    "byte": _matches(_BASE64),
    "cidr": _cidr,
    "creditcard": _card,
    "date": _day,
    "datetime": _moment,
    "duration": span_of,
    "email": _matches(_EMAIL),
    "hexcolor": _matches(re.compile(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})")),
    "hostname": _host,
    "ipv4": lambda value: "." in value and _is_address(value),
    "ipv6": _ipv6,
    "isbn": lambda value: _isbn10(value) or _isbn13(value),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "k8slongname": _matches(_LONG_NAME),
    "k8sshortname": _matches(_SHORT_NAME),
    "mac": _matches(_MAC),
    "rgbcolor": _matches(re.compile(rf"rgb\({_COLOUR},{_COLOUR},{_COLOUR}\)", re.ASCII)),
    "ssn": lambda value: re.fullmatch(r"(?=.{11}\Z)\d{3}[- ]?\d{2}[- ]?\d{4}", value, re.ASCII) is not None,
    "uri": lambda value: not url_problem(value),
    "uuid": _uuid("[0-9a-f]", "[0-9a-f]"),
    "uuid3": _uuid("3", "[0-9a-f]"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
}
