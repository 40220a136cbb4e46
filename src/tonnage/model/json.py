"""JSON as the type checker sees it, and read out of texts that anybody may have written."""

import json
from collections.abc import Iterable
from typing import Final, TypeAlias, Union

JsonScalar: TypeAlias = str | int | float | bool | None
JsonValue: TypeAlias = Union[JsonScalar, "list[JsonValue]", "dict[str, JsonValue]"]
JsonObject: TypeAlias = dict[str, JsonValue]

MOST_DEPTH: Final = 200
"""Levels of nesting: what follows a reader recurses, a few calls for each level."""
_TOO_DEEP: Final = f"nested deeper than {MOST_DEPTH} levels"


class DuplicateKeyError(ValueError):
    """An object has `key` twice."""

    def __init__(self, key: str) -> None:
        super().__init__(f"duplicate key {key[:100]}")
        self.key = key


def parsed_json(text: str | bytes, *, unique: bool = False) -> JsonValue:
    """The value of a text. `unique`: an object that has a key twice is refused.

    Raises:
        ValueError: no JSON (`json.JSONDecodeError` with the place), an integer of more digits than Python
            reads, or nested deeper than `MOST_DEPTH`. Never a RecursionError.

    >>> parsed_json('{"a": [1]}')
    {'a': [1]}
    >>> parsed_json('[' * 100_000)
    Traceback (most recent call last):
    ValueError: nested deeper than 200 levels
    """
    try:
        value: JsonValue = json.loads(text, object_pairs_hook=_once if unique else None)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if _may_be_deep(text) and _deeper_than(value, MOST_DEPTH):
        raise ValueError(_TOO_DEEP)
    return value


def _once(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        keys: set[str] = set()
        for key, _ in pairs:
            if key in keys:
                raise DuplicateKeyError(key)
            keys.add(key)
    return unique


def _may_be_deep(text: str | bytes) -> bool:
    if isinstance(text, str):
        return text.count("[") + text.count("{") > MOST_DEPTH
    return b"\0" in text or text.count(b"[") + text.count(b"{") > MOST_DEPTH


def _deeper_than(value: JsonValue, limit: int) -> bool:
    """Level by level, since this must not recurse."""
    level: Iterable[JsonValue] = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list)) and outer
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
