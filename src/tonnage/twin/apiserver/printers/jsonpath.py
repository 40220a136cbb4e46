"""The JSONPath of printer columns: fields, places in lists, wildcards, what is anywhere below, and filters.

Grammar: steps `.name`, `['name']`, `..name`, `[0]`, `[-1]`, `[1:3]`, `[*]`, `[0,2]`, `['a','b']`,
`[?(@.path=="value")]` (also `!=`, `<`, `<=`, `>`, `>=`), `[?(@.path)]`.
Source: k8s.io/client-go util/jsonpath.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tonnage.model.json import JsonValue

_NAME: Final = r"(?:\\.|[^.\[\]\\])+"
_KEY: Final = r"""(?:'[^']*'|"[^"]*")"""
_STEP: Final = re.compile(
    rf"""\.\.(?P<below>{_NAME}) | \.(?P<field>{_NAME})
      | \[(?P<union>(?:{_KEY}|-?\d+)(?:\s*,\s*(?:{_KEY}|-?\d+))*)\]
      | \[(?P<slice>-?\d*:-?\d*(?::\d+)?)\] | \[(?P<all>\*)\]
      | \[\?\(\s*@(?P<where>[^=!<>]*?)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>{_KEY}|[^)]*?))?\s*\)\]""",
    re.VERBOSE,
)
_PART: Final = re.compile(rf"{_KEY}|-?\d+")
_LONGEST: Final = 1024
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_Step = Callable[[JsonValue], Iterable[JsonValue]]
"""What a step finds in a value. Raises ValueError where the whole path finds nothing then."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A parsed path."""

    steps: tuple[_Step, ...]

    @classmethod
    def parse(cls, path: str) -> JsonPath:
        r"""The path that `.status.conditions[?(@.type=="Ready")].status` says.

        >>> JsonPath.parse(".a[0].b").first({"a": [{"b": 7}]})
        7

        Raises:
            ValueError: no such path.
        """
        path = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
        if len(path) > _LONGEST:
            raise ValueError("the path is too long")
        if path and path[0] not in ".[":
            path = f".{path}"
        steps: list[_Step] = []
        position = 0
        while position < len(path) and path[position:] != ".":
            match = _STEP.match(path, position)
            if match is None:
                raise ValueError(f"cannot read {path[position:]!r}")
            steps += _steps(match)
            position = match.end()
        return cls(tuple(steps))

    def first(self, value: JsonValue) -> JsonValue:
        """The first value that the path finds, or None."""
        try:
            return next(self.all(value), None)
        except ValueError:
            return None

    def all(self, value: JsonValue) -> Iterator[JsonValue]:
        """Every value that the path finds. Raises ValueError where it leads beyond a list."""
        values = [value]
        for step in self.steps:
            values = [inner for outer in values if outer is not None for inner in step(outer)]
        return iter(values)


def _steps(match: re.Match[str]) -> list[_Step]:
    if match["below"] is not None:
        return [_below, _field_step(match["below"])]
    if match["field"] is not None:
        return [_field_step(match["field"])]
    if match["union"] is not None:
        parts = [_part(term) for term in _PART.findall(match["union"])]
        return [lambda value: [inner for part in parts for inner in part(value)]]
    if match["slice"] is not None:
        return [_slice(match["slice"])]
    if match["where"] is not None:
        inner = JsonPath.parse(match["where"])
        return [_filter(inner, match["op"], None if match["value"] is None else _literal(match["value"]))]
    return [_members]


def _field_step(written: str) -> _Step:
    return _members if written == "*" else _field(written.replace("\\.", "."))


def _part(written: str) -> _Step:
    """A name in quotes, or a place."""
    return _field(written[1:-1]) if written[0] in "'\"" else _place(int(written))


def _field(key: str) -> _Step:
    return lambda value: [value[key]] if isinstance(value, dict) and key in value else []


def _place(index: int) -> _Step:
    def matches(value: JsonValue) -> list[JsonValue]:
        members = _listed(value)
        if not -len(members) <= index < len(members):
            raise ValueError(f"array index out of bounds: index {index}, length {len(members)}")
        return [members[index]]

    return matches


def _slice(written: str) -> _Step:
    start, end, step = ([int(bound) if bound else None for bound in written.split(":")] + [None])[:3]

    def matches(value: JsonValue) -> list[JsonValue]:
        members = _listed(value)
        first = start or 0
        if not -len(members) <= first < len(members) or (end or 0) > len(members):
            raise ValueError(f"array index out of bounds: index {first}, length {len(members)}")
        return members[first:end:step]

    return matches


def _listed(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise ValueError("is not array or slice")
    return value


def _filter(where: JsonPath, op: str | None, literal: JsonValue) -> _Step:
    def holds(member: JsonValue) -> bool:
        values = list(where.all(member))
        if op is None or not values:
            return op is None and bool(values)
        if len(values) > 1:
            raise ValueError("can only compare one element at a time")
        try:
            return _COMPARE[op](values[0], literal)
        except TypeError:
            raise ValueError("incompatible types for comparison") from None

    return lambda value: [member for member in _listed(value) if holds(member)]


def _literal(text: str) -> JsonValue:
    if text[:1] in "'\"" and text:
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text


def _members(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _below(value: JsonValue) -> Iterator[JsonValue]:
    """A value that holds others, and all such below it."""
    if members := _members(value):
        yield value
        for member in members:
            yield from _below(member)
