"""Whether an object still has what was applied to it, whoever has written it since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.model.json import JsonValue
from tonnage.model.kubernetes.quantity import parse_quantity

_AMOUNTS: Final = frozenset({"limits", "requests", "overhead", "sizeLimit", "divisor"})
"""What has quantities below it; elsewhere `1` and `1000m` are two texts, as in `env`."""
_KEYS: Final = ("mountPath", "name")
"""By which items of a list are known; a list without them is one value."""


def has_kept(standing: JsonValue, applied: JsonValue) -> bool:
    """Whether all of `applied` stands there; what the API server or others have added does not count.

    An empty value counts as an absent one, and in `resources` `500m` as `0.5`: so the API server writes them.

    >>> has_kept({"image": "a", "ports": [1]}, {"image": "a", "args": []}), has_kept({}, {"image": "a"})
    (True, False)
    """
    return _has_kept(standing, applied)


def _has_kept(standing: JsonValue, applied: JsonValue, *, amounts: bool = False) -> bool:
    """`amounts`: the texts in it are quantities."""
    if isinstance(applied, dict):
        there = standing if isinstance(standing, dict) else {}
        return all(
            _has_kept(there.get(key), value, amounts=amounts or key in _AMOUNTS)
            for key, value in applied.items()
        )
    if isinstance(applied, list):
        return _has_items(standing if isinstance(standing, list) else [], applied)
    if not applied and not standing:
        return True
    return standing == applied or (amounts and _same_quantity(standing, applied))


def _has_items(standing: Sequence[JsonValue], applied: Sequence[JsonValue]) -> bool:
    key = next(
        (key for key in _KEYS if all(isinstance(entry, dict) and key in entry for entry in applied)), ""
    )
    if key and applied:
        there = {entry.get(key): entry for entry in standing if isinstance(entry, dict)}
        return all(isinstance(entry, dict) and has_kept(there.get(entry[key]), entry) for entry in applied)
    return len(standing) == len(applied) and all(map(has_kept, standing, applied))


def _same_quantity(standing: JsonValue, applied: JsonValue) -> bool:
    if isinstance(standing, bool) or isinstance(applied, bool):
        return False
    if not isinstance(standing, str | int) or not isinstance(applied, str | int):
        return False
    try:
        return parse_quantity(str(standing)) == parse_quantity(str(applied))
    except ValueError:
        return False
