"""The JSONPath of printer columns: fields, indices, wildcards and equality filters.

Grammar: steps `.name`, `['name']`, `[0]`, `[-1]`, `[*]`, `[?(@.path=="value")]`.
Source: k8s.io/client-go util/jsonpath.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.model.json import JsonObject, JsonValue

_STEP: Final = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\]\\])+)
      | \[(?P<quote>['"])(?P<key>(?:(?!(?P=quote)).)*)(?P=quote)\]
      | \[(?P<index>-?\d+)\]
      | \[(?P<all>\*)\] | \.(?P<star>\*)
      | \[\?\(\s*@(?P<where>[^=!<>]*?)\s*(?P<op>==|!=)\s*(?P<value>"[^"]*"|'[^']*'|[^)]*?)\s*\)\]""",
    re.VERBOSE,
)
_LONGEST: Final = 1024


@dataclass(frozen=True, slots=True)
class _Step:
    kind: str
    key: str = ""
    index: int = 0
    where: JsonPath | None = None
    equal: bool = True
    value: JsonValue = None


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
            steps.append(_step(match))
            position = match.end()
        return cls(tuple(steps))

    def first(self, value: JsonValue) -> JsonValue:
        """The first value that the path finds, or None."""
        return next(self.all(value), None)

    def all(self, value: JsonValue) -> Iterator[JsonValue]:
        """Every value that the path finds."""
        found = [value]
        for step in self.steps:
            found = [inner for one in found for inner in _taken(step, one)]
        return iter(found)


def _step(match: re.Match[str]) -> _Step:
    if match["field"] is not None:
        return _Step("all") if match["field"] == "*" else _Step("key", match["field"].replace("\\.", "."))
    if match["key"] is not None:
        return _Step("key", match["key"])
    if match["index"] is not None:
        return _Step("index", index=int(match["index"]))
    if match["where"] is not None:
        inner = JsonPath.parse(match["where"])
        return _Step("filter", where=inner, equal=match["op"] == "==", value=_literal(match["value"]))
    return _Step("all")


def _literal(text: str) -> JsonValue:
    if text[:1] in "'\"" and text:
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text


def _taken(step: _Step, value: JsonValue) -> list[JsonValue]:
    match step.kind:
        case "key":
            return [value[step.key]] if isinstance(value, dict) and step.key in value else []
        case "index":
            inside = isinstance(value, list) and -len(value) <= step.index < len(value)
            return [value[step.index]] if isinstance(value, list) and inside else []
        case "filter":
            members = value if isinstance(value, list) else []
            assert step.where is not None
            return [one for one in members if (step.value in list(step.where.all(one))) is step.equal]
        case _:
            return list(_members(value))


def _members(value: JsonValue) -> list[JsonValue] | list[JsonObject]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
