"""JSON bodies read so that repeated keys are not lost, and the error of a body that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from tonnage.decide.kubernetes.api.problems import quoted
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue

DEEPEST: Final = 10_000 // 20
"""Nesting beyond this is refused; the Go decoder's bound is 10,000, Python's stack is smaller."""
UNREAD: Final = "couldn't get version/kind; json parse error: "
"""Before what Go's decoder says of a body whose kind it looks for first."""
_FIRST_BEYOND_ASCII: Final = 0x80
_PLACES: Final = {
    "Extra data": "after top-level value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Invalid control character at": "in string literal",
}
"""Python's words for what is wrong, and Go's for the place."""


class BodyError(ApiError):
    """400: a body that does not decode. `detail` is the decoder's text without what was being decoded."""

    def __init__(self, detail: str, *, subject: str = "") -> None:
        super().__init__(400, "BadRequest", f"{subject}: {detail}" if subject else detail)
        self.detail = detail


class Repeated(dict[str, JsonValue]):
    """A JSON object in which some keys stood more than once; the last value counts, as in Go.

    `lines`: what the reader of a body of YAML says of such keys in all of it.
    """

    repeated: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    def with_others(self, fields: JsonObject) -> Repeated:
        """The same keys, repeated, of an object of these fields."""
        other = Repeated(fields)
        other.repeated, other.lines = self.repeated, self.lines
        return other


def parse_json(content: bytes) -> JsonValue:
    """The JSON value of a body. An object with duplicate keys comes back as `Repeated`.

    Raises:
        BodyError: the body is not JSON, or nested too deeply.
    """
    try:
        value: JsonValue = json.loads(_text(content), object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BodyError(f"{UNREAD}{_go_text(content, error)}") from None
    if _deeper_than(value, DEEPEST):
        raise BodyError(f"{UNREAD}{_too_deep(content)}")
    return _mended(value) if b"\\ud" in content or b"\\uD" in content else value


def repeated_lines(value: JsonValue) -> tuple[str, ...]:
    """What the reader of YAML said of repeated keys: `line 7: key "a" already set in map`."""
    return value.lines if isinstance(value, Repeated) else ()


def strict_error(complaints: Sequence[str], lines: Sequence[str] = ()) -> str:
    """What strict reading says of a body; `lines` are of YAML."""
    of_yaml = [unmarshal_error(lines)] if lines else []
    return f"strict decoding error: {', '.join([*of_yaml, *complaints])}"


def unmarshal_error(lines: Sequence[str]) -> str:
    """What the reader of YAML says of these lines."""
    return "\n  ".join(("yaml: unmarshal errors:", *lines))


def repeated_fields(value: JsonValue, path: str = "") -> Iterator[str]:
    """`duplicate field "a.b"` of every key that stood more than once."""
    if isinstance(value, dict):
        again = value.repeated if isinstance(value, Repeated) else ()
        for key, inner in value.items():
            if key in again:
                yield f'duplicate field "{path}{key}"'
            yield from repeated_fields(inner, f"{path}{key}.")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from repeated_fields(inner, f"{path.removesuffix('.')}[{index}].")


def _text(content: bytes) -> str:
    """The text, with U+FFFD for what is no character, as Go reads it.

    Raises:
        ValueError: it does not begin as JSON begins.
    """
    if content[:1] and content[0] >= _FIRST_BEYOND_ASCII:
        raise ValueError(f"invalid character {_quoted(chr(content[0]))} looking for beginning of value")
    return content.decode("utf-8", "replace")


def _mended(value: JsonValue) -> JsonValue:
    """The value with U+FFFD for halves of surrogate pairs, which no text can hold."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_mended(inner) for inner in value]
    if isinstance(value, dict):
        mended = {str(_mended(key)): _mended(inner) for key, inner in value.items()}
        value.clear()
        value.update(mended)
        if isinstance(value, Repeated):
            value.repeated = tuple(str(_mended(key)) for key in value.repeated)
    return value


def _object(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    unique = dict(pairs)
    if len(unique) == len(pairs):
        return unique
    # A key stands where it was last, as that is where it is told of.
    last: JsonObject = {}
    again: dict[str, None] = {}
    for key, value in pairs:
        if key in last:
            del last[key]
            again[key] = None
        last[key] = value
    marked = Repeated(last)
    marked.repeated = tuple(again)
    return marked


def _no_constant(text: str) -> JsonValue:
    raise ValueError(f"invalid character {text[0]!r} looking for beginning of value")


def _go_text(content: bytes, error: Exception) -> str:
    """What Go's decoder says of the same text, as far as the place of the error tells it."""
    if isinstance(error, RecursionError):
        return _too_deep(content)
    if not isinstance(error, json.JSONDecodeError):
        message = str(error)
        return message if message.startswith("invalid character") else "unexpected end of JSON input"
    if error.pos >= len(error.doc) or error.msg.startswith("Unterminated"):
        return "unexpected end of JSON input"
    where = _PLACES.get(error.msg, "looking for beginning of value")
    return f"invalid character {_quoted(error.doc[error.pos])} {where}"


def _quoted(char: str) -> str:
    match char:
        case "'":
            return r"'\''"
        case '"':
            return "'\"'"
        case _:
            return f"'{quoted(char)[1:-1]}'"


def _too_deep(content: bytes) -> str:
    """Told of the bracket that opens most: which one crossed Go's bound is beyond ours."""
    bracket = "[" if content.count(b"[") > content.count(b"{") else "{"
    return f"invalid character {bracket!r} exceeded max depth"


def _deeper_than(value: JsonValue, limit: int) -> bool:
    level: list[JsonValue] = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list)) and outer
            for inner in (outer.values() if isinstance(outer, dict) else outer)
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
