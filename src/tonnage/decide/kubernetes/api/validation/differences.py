"""Where two values differ."""

from __future__ import annotations

from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.model.json import JsonValue


def changed_paths(new: JsonValue, old: JsonValue, path: str) -> list[tuple[str, JsonValue, JsonValue]]:
    """Places where two values differ: path, new, old.

    What is decoded has no empty lists and maps, so that an empty map is a struct that somebody points to.
    """
    if isinstance(new, dict) and isinstance(old, dict):
        keys = list(dict.fromkeys([*old, *new]))
        return [
            change for key in keys for change in changed_paths(new.get(key), old.get(key), f"{path}.{key}")
        ]
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [
            change
            for index, (now, was) in enumerate(zip(new, old, strict=True))
            for change in changed_paths(now, was, f"{path}[{index}]")
        ]
    return [] if same_json(new, old) else [(path, new, old)]
