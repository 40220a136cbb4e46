"""Formats of strings in schemas of custom kinds.

Source: k8s.io/kube-openapi pkg/validation/strfmt (v1.35).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from ipaddress import IPv4Address, IPv6Address, ip_interface
from typing import Final
from urllib.parse import urlsplit

from tonnage.model.durations import nanoseconds
from tonnage.twin.apiserver.objects.scalars import WrongTypeError, read_bytes, read_time

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
    r"[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2}){4,18})|(?:[0-9A-Fa-f]{4}\.){2,9}[0-9A-Fa-f]{4}"
)
_UUID: Final = r"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{}[0-9a-f]{{3}}-?{}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
_HOST: Final = re.compile(
    r"(?=.{1,255}$)[A-Za-z0-9](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9-]{1,63})*"
)
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")

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
    check = _CHECKS.get(form)
    if check is None:
        return True
    try:
        return check(value) is not False
    except (ValueError, WrongTypeError):
        return False


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda value: pattern.fullmatch(value) is not None


def _uuid(version: str, variant: str) -> Callable[[str], bool]:
    return _matches(re.compile(_UUID.format(version, variant), re.IGNORECASE))


def _cidr(value: str) -> bool:
    ip_interface(value)
    return "/" in value


def _uri(value: str) -> bool:
    parts = urlsplit(value)
    return bool(parts.scheme) or value.startswith("/")


def _mail(value: str) -> bool:
    return _EMAIL.fullmatch(value) is not None


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
        found = [_long_span(number, unit.lower()) for number, unit in _LONG_SPAN.findall(value)]
    known = [one for one in found if one is not None]
    if not known:
        raise ValueError(f"unable to parse {value} as duration")
    return sum(known)


def _long_span(number: str, unit: str) -> int | None:
    for names, nanos in _LONG_UNITS:
        if unit in names or unit.startswith(names[-1]):
            return int(number) * nanos
    return None


_CHECKS: Final[dict[str, Callable[[str], object]]] = {
    "byte": read_bytes,
    "cidr": _cidr,
    "date": lambda value: len(value) == len("2024-01-01") and date.fromisoformat(value),
    "date-time": read_time,
    "datetime": read_time,
    "duration": span_of,
    "email": _mail,
    "hostname": _matches(_HOST),
    "ipv4": IPv4Address,
    "ipv6": IPv6Address,
    "mac": _matches(_MAC),
    "uri": _uri,
    "uuid": _uuid("[0-9a-f]", "[0-9a-f]"),
    "uuid3": _uuid("3", "[0-9a-f]"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
}
