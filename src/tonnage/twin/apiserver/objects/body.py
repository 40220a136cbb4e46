"""JSON bodies read so that repeated keys are not lost, and the error of a body that cannot be used."""

from __future__ import annotations

import json
from typing import Final

import msgspec

from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue

DEEPEST: Final = 10_000 // 20
"""Nesting beyond this is refused; the Go decoder's bound is 10,000, Python's stack is smaller."""


class BodyError(ApiError):
    """400: a body that does not decode. `detail` is the decoder's text without what was being decoded."""

    def __init__(self, detail: str, *, subject: str = "") -> None:
        super().__init__(400, "BadRequest", f"{subject}: {detail}" if subject else detail)
        self.detail = detail


class Repeated(dict[str, JsonValue]):
    """A JSON object in which some keys stood more than once; the last value counts, as in Go."""

    repeated: tuple[str, ...] = ()


def parse_json(data: bytes, *, strict: bool = True) -> JsonValue:
    """The JSON value of a body. With `strict`, an object with duplicate keys comes back as `Repeated`.

    Raises:
        BodyError: the body is not JSON, or nested too deeply.
    """
    try:
        if strict:
            value: JsonValue = json.loads(data, object_pairs_hook=_object, parse_constant=_no_constant)
        else:
            value = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        detail = f"couldn't get version/kind; json parse error: {_go_text(data, error)}"
        raise BodyError(detail) from None
    if _deeper_than(value, DEEPEST):
        raise BodyError("couldn't get version/kind; json parse error: exceeded max depth")
    return value


def _object(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    result = dict(pairs)
    if len(result) == len(pairs):
        return result
    seen: set[str] = set()
    again: list[str] = []
    for key, _ in pairs:
        if key in seen and key not in again:
            again.append(key)
        seen.add(key)
    marked = Repeated(result)
    marked.repeated = tuple(again)
    return marked


def _no_constant(text: str) -> JsonValue:
    raise ValueError(f"invalid character {text[0]!r} looking for beginning of value")


def _go_text(data: bytes, error: Exception) -> str:
    """What Go's decoder says of the same text, as far as the place of the error tells it."""
    if isinstance(error, RecursionError):
        return "exceeded max depth"
    position = getattr(error, "pos", None)
    if position is None or position >= len(data):
        return "unexpected end of JSON input"
    return f"invalid character {chr(data[position])!r} looking for beginning of value"


def _deeper_than(value: JsonValue, limit: int) -> bool:
    level: list[JsonValue] = [value]
    for _ in range(limit):
        level = [
            inner
            for item in level
            if isinstance(item, (dict, list)) and item
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def copy_json(value: JsonValue) -> JsonValue:
    """A deep copy of plain JSON."""
    if isinstance(value, dict):
        return {key: copy_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [copy_json(inner) for inner in value]
    return value
