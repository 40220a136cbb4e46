"""The status of CustomResourceDefinitions: names given to whom asks first, and conditions.

Source: k8s.io/apiextensions-apiserver (pkg/controller/{establish,status}), v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import copied, mapping, mappings, text, texts

_NAMES: Final = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
"""In the order in which they are shown."""


def is_established(definition: JsonObject) -> bool:
    """Whether a definition's kind is served."""
    condition = _condition(definition, "Established")
    return text(condition, "status") == "True"


def names_status(definition: JsonObject, accepted: list[JsonObject]) -> JsonObject | None:
    """The status once the names asked for are given, as far as they are free; None where nothing changes.

    `accepted` are the names that the group's definitions have, its own included.
    """
    names, own = mapping(definition, "spec", "names"), mapping(definition, "status", "acceptedNames")
    if same_names(names, own):
        return None
    resources = {text(entry, key) for entry in accepted for key in ("plural", "singular")}
    resources |= {short for entry in accepted for short in texts(entry, "shortNames")}
    kinds = {text(entry, key) for entry in accepted for key in ("kind", "listKind")}
    granted, conflict = copied(own), ("True", "NoConflicts", "no conflicts found")
    for key, reason, used in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        requested = texts(names, key) if key == "shortNames" else [text(names, key)]
        had = texts(own, key) if key == "shortNames" else [text(own, key)]
        conflicts = [
            f'"{entry}" is already in use' for entry in requested if entry not in had and entry in used
        ]
        if conflicts:  # the condition tells the last of several
            words = conflicts[0] if len(conflicts) == 1 else f"[{', '.join(conflicts)}]"
            conflict = ("False", reason, words)
        elif key in names:
            granted[key] = names[key]
        else:
            granted.pop(key, None)
    granted.pop("categories", None)
    if texts(names, "categories"):
        granted["categories"] = names["categories"]
    granted = {key: granted[key] for key in _NAMES if key in granted}
    conditions = with_condition(definition, "NamesAccepted", conflict)
    if same_names(granted, own) and conditions == _undated(mappings(definition, "status", "conditions")):
        return None
    return {"acceptedNames": granted, "conditions": _established(conditions, conflict[0])}


def same_names(names: JsonObject, other: JsonObject) -> bool:
    """Whether two sets of names are the same, unset and empty ones included."""
    keys = ("plural", "singular", "kind", "listKind")
    lists = ("shortNames", "categories")
    return all(text(names, key) == text(other, key) for key in keys) and all(
        texts(names, key) == texts(other, key) for key in lists
    )


def _established(conditions: list[JsonValue], accepted: str) -> list[JsonValue]:
    """The conditions with that of being served, which once true stays so."""
    definition: JsonObject = {"status": {"conditions": conditions}}
    if is_established(definition):
        return conditions
    if accepted == "True":
        condition = ("True", "InitialNamesAccepted", "the initial names have been accepted")
    else:
        condition = ("False", "NotAccepted", "not all names are accepted")
    return with_condition(definition, "Established", condition)


def _condition(definition: JsonObject, name: str) -> JsonObject:
    conditions = mappings(definition, "status", "conditions")
    return next((condition for condition in conditions if text(condition, "type") == name), {})


def with_condition(definition: JsonObject, name: str, words: tuple[str, str, str]) -> list[JsonValue]:
    """The conditions, without their moments, with one of them as said: status, reason, message."""
    status, reason, message = words
    new: JsonObject = {"type": name, "status": status, "reason": reason, "message": message}
    old = _undated(mappings(definition, "status", "conditions"))
    if not any(isinstance(entry, dict) and text(entry, "type") == name for entry in old):
        return [*old, new]
    return [new if isinstance(entry, dict) and text(entry, "type") == name else entry for entry in old]


def _undated(conditions: list[JsonObject]) -> list[JsonValue]:
    return [
        {key: value for key, value in condition.items() if key != "lastTransitionTime"}
        for condition in conditions
    ]
