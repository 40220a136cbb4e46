"""Single values as the server reads and writes them: quantities, times, base64, numbers.

Source: k8s.io/apimachinery (api/resource, apis/meta/v1, util/intstr), Go's json, base64 and time.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from tonnage.decide.kubernetes.api.problems import quoted
from tonnage.model.durations import nanoseconds
from tonnage.model.json import JsonValue
from tonnage.model.kubernetes.quantity import canonical_quantity

ZERO: Final[dict[str, JsonValue]] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "float64": 0,
    "quantity": "0",
    "int-or-string": 0,
    "duration": "0s",
}
GO_NAMES: Final = {
    "time": "v1.Time",
    "micro-time": "v1.MicroTime",
    "quantity": "resource.Quantity",
    "int-or-string": "intstr.IntOrString",
    "bytes": "[]uint8",
    "raw": "runtime.RawExtension",
}
_INT32: Final = range(-(1 << 31), 1 << 31)
_INT64: Final = range(-(1 << 63), 1 << 63)
_USUAL_TIME: Final = 40
_RFC3339: Final = "2006-01-02T15:04:05Z07:00"
_MICRO: Final = "2006-01-02T15:04:05.000000Z07:00"
_TO_SECONDS: Final = r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)"
_ZONE: Final = r"(?:Z|([+-])(\d\d):(\d\d))"
_TIME: Final = re.compile(rf"{_TO_SECONDS}(?:[.,](\d+))?{_ZONE}", re.ASCII)
_MICRO_TIME: Final = re.compile(rf"{_TO_SECONDS}[.,](\d{{6}}){_ZONE}", re.ASCII)
_UP_TO_MINUTES: Final = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d?"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
)
_OFFSET: Final = ("Z07:00", r"Z|[+-]\d\d:\d\d")
_LAYOUTS: Final = {
    _RFC3339: (*_UP_TO_MINUTES, ("05", r"\d\d(?:[.,]\d+)?"), _OFFSET),
    _MICRO: (*_UP_TO_MINUTES, ("05", r"\d\d"), (".000000", r"[.,]\d{6}"), _OFFSET),
}


class WrongTypeError(Exception):
    """The JSON value has the wrong type; `go_type` is what Go wants, if not the field's own type."""

    def __init__(self, go_type: str = "") -> None:
        super().__init__(go_type)
        self.go_type = go_type


def describe(value: JsonValue) -> str:
    """What Go calls a JSON value that it cannot take."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case dict():
            return "object"
        case None:
            return "null"


def read_string(value: JsonValue) -> JsonValue:
    """A string as it is."""
    if not isinstance(value, str):
        raise WrongTypeError
    return value


def read_bool(value: JsonValue) -> JsonValue:
    """A truth value as it is."""
    if not isinstance(value, bool):
        raise WrongTypeError
    return value


def _read_integer(value: JsonValue, bounds: range) -> JsonValue:
    if isinstance(value, bool) or not isinstance(value, int) or value not in bounds:
        raise WrongTypeError
    return value


def read_int32(value: JsonValue) -> JsonValue:
    """An integer of 32 bits."""
    return _read_integer(value, _INT32)


def read_int64(value: JsonValue) -> JsonValue:
    """An integer of 64 bits."""
    return _read_integer(value, _INT64)


def read_float(value: JsonValue) -> JsonValue:
    """Any number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WrongTypeError
    return value


def read_bytes(value: JsonValue) -> JsonValue:
    """Base64, with its padding. Raises ValueError with Go's text."""
    if not isinstance(value, str):
        raise WrongTypeError
    plain = value.replace("\r", "").replace("\n", "")
    try:
        return base64.b64encode(base64.b64decode(plain, validate=True)).decode("ascii")
    except (binascii.Error, ValueError):
        raise ValueError(f"illegal base64 data at input byte {_bad_byte(plain)}") from None


def _bad_byte(text: str) -> int:
    """Index of the first byte at which Go's decoder gives up."""
    match = re.match(r"(?:[A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{0,3}", text)
    end = match.end() if match else 0
    return end - end % 4 if end == len(text) else end


def read_quantity(value: JsonValue) -> JsonValue:
    """A quantity in its canonical form; a number stands for its text. Raises ValueError with Go's text."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return canonical_quantity("-")
    return canonical_quantity(value.strip() if isinstance(value, str) else str(value))


def read_int_or_string(value: JsonValue) -> JsonValue:
    """A string, or an integer of 32 bits."""
    if isinstance(value, str):
        return value
    try:
        return read_int32(value)
    except WrongTypeError:
        raise WrongTypeError("int32") from None


def read_time(value: JsonValue) -> JsonValue:
    """RFC 3339, in whole seconds of UTC."""
    if isinstance(value, str) and len(value) <= _USUAL_TIME:
        return _whole_seconds(value)  # an object's times are mostly those of the last time it was read
    return _utc_text(_instant(value, _RFC3339), "seconds")


@lru_cache(maxsize=4096)
def _whole_seconds(text: str) -> str:
    return _utc_text(_instant(text, _RFC3339), "seconds")


def read_micro_time(value: JsonValue) -> JsonValue:
    """RFC 3339 with six digits of a second, in UTC."""
    return _utc_text(_instant(value, _MICRO), "microseconds")


def _utc_text(moment: datetime, parts: str) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec=parts)}Z"


def _instant(value: JsonValue, layout: str) -> datetime:
    if not isinstance(value, str):
        raise WrongTypeError("string")
    match = (_MICRO_TIME if layout == _MICRO else _TIME).fullmatch(value)
    if match is None:
        raise ValueError(_time_problem(value, layout))
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction = int((match[7] or "0").ljust(6, "0")[:6])
    hours, minutes = int(match[9] or 0), int(match[10] or 0)
    offset = timedelta(hours=hours, minutes=minutes)
    try:
        moment = datetime(year, month, day, hour, minute, second, fraction, UTC)
        moved = moment + offset if match[8] == "-" else moment - offset
    except (ValueError, OverflowError) as error:
        wrong = str(error).split(" ", maxsplit=1)[0]
    else:
        # Some people write offsets of 24 hours, or of 60 minutes.
        if hours <= 24 and minutes <= 60:
            return moved
        wrong = f"time zone offset {'hour' if hours > 24 else 'minute'}"
    raise ValueError(f"parsing time {quoted(value)}: {wrong} out of range")


def _time_problem(text: str, layout: str) -> str:
    """Go's words for a text that does not follow the layout."""
    rest = text
    for element, pattern in _LAYOUTS[layout]:
        match = re.match(pattern, rest, re.ASCII)
        if match is None:
            return f'parsing time {quoted(text)} as "{layout}": cannot parse {quoted(rest)} as "{element}"'
        rest = rest[match.end() :]
    return f"parsing time {quoted(text)}: extra text: {quoted(rest)}"


def read_duration(value: JsonValue) -> JsonValue:
    """A Go duration such as `1h30m`, as it is."""
    if not isinstance(value, str):
        raise WrongTypeError("string")
    nanoseconds(value)
    return value


READERS: Final[dict[str, Callable[[JsonValue], JsonValue]]] = {
    "string": read_string,
    "bool": read_bool,
    "int32": read_int32,
    "int64": read_int64,
    "float64": read_float,
    "bytes": read_bytes,
    "quantity": read_quantity,
    "int-or-string": read_int_or_string,
    "time": read_time,
    "micro-time": read_micro_time,
    "duration": read_duration,
}
