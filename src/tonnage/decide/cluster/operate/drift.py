"""Whether an object still has what was applied to it, whoever has written it since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.model.json import JsonValue
from tonnage.model.kubernetes.quantity import parse_quantity

_KEYS: Final = ("name", "mountPath")
"""By which items of a list are known; a list without them is one value."""


def has_kept(standing: JsonValue, wanted: JsonValue) -> bool:
    """Whether all of `wanted` stands there; what the API server or others have added does not count.

    An empty value counts as an absent one, and `500m` as `0.5`: so the API server writes them.

    >>> has_kept({"image": "a", "ports": [1]}, {"image": "a", "args": []}), has_kept({}, {"image": "a"})
    (True, False)
    """
    if isinstance(wanted, dict):
        there = standing if isinstance(standing, dict) else {}
        return all(has_kept(there.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return _has_items(standing if isinstance(standing, list) else [], wanted)
    if not wanted and not standing:
        return True
    return standing == wanted or _same_quantity(standing, wanted)


def _has_items(standing: Sequence[JsonValue], wanted: Sequence[JsonValue]) -> bool:
    key = next((key for key in _KEYS if all(isinstance(item, dict) and key in item for item in wanted)), "")
    if key and wanted:
        there = {item.get(key): item for item in standing if isinstance(item, dict)}
        return all(isinstance(item, dict) and has_kept(there.get(item[key]), item) for item in wanted)
    return len(standing) == len(wanted) and all(map(has_kept, standing, wanted))


def _same_quantity(standing: JsonValue, wanted: JsonValue) -> bool:
    if isinstance(standing, bool) or isinstance(wanted, bool):
        return False
    if not isinstance(standing, str | int) or not isinstance(wanted, str | int):
        return False
    try:
        return parse_quantity(str(standing)) == parse_quantity(str(wanted))
    except ValueError:
        return False
