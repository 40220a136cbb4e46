"""Parts of a pod that are changed through a subresource of their own: ephemeral containers and resources.

Source: pkg/registry/core/pod/strategy.go (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import copied, drop, items, mappings, put, text

POD_PARTS: Final = ("ephemeralcontainers", "resize")
_RESIZED: Final = ("resources", "resizePolicy")


def with_part(subresource: str, obj: JsonObject, old: JsonObject) -> JsonObject:
    """The old pod with that part of `obj`; of a resize that renames, all, for the rules to see it."""
    result = copied(old)
    if subresource == "ephemeralcontainers":
        drop(result, "spec", "ephemeralContainers")
        if found := items(obj, "spec", "ephemeralContainers"):
            put(result, found, "spec", "ephemeralContainers")
        return result
    parts = ("containers", "initContainers")
    if any(len(items(obj, "spec", part)) != len(items(old, "spec", part)) for part in parts):
        return obj
    for part in parts:
        if items(old, "spec", part):
            put(result, _resized(mappings(obj, "spec", part), mappings(old, "spec", part)), "spec", part)
    return result


def _resized(new: list[JsonObject], old: list[JsonObject]) -> list[JsonValue]:
    if any(text(one, "name") != text(before, "name") for one, before in zip(new, old, strict=True)):
        return list(new)
    result: list[JsonValue] = []
    for one, before in zip(new, old, strict=True):
        kept: JsonObject = {key: value for key, value in before.items() if key not in _RESIZED}
        result.append({**kept, **{key: one[key] for key in _RESIZED if key in one}})
    return result
