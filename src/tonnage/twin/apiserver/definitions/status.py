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
    found = _condition(definition, "Established")
    return text(found, "status") == "True"


def named(definition: JsonObject, accepted: list[JsonObject]) -> JsonObject | None:
    """The status once the names asked for are given, as far as they are free; None where nothing changes.

    `accepted` are the names that the group's definitions have, its own included.
    """
    wanted, own = mapping(definition, "spec", "names"), mapping(definition, "status", "acceptedNames")
    if same_names(wanted, own):
        return None
    resources = {text(one, key) for one in accepted for key in ("plural", "singular")}
    resources |= {short for one in accepted for short in texts(one, "shortNames")}
    kinds = {text(one, key) for one in accepted for key in ("kind", "listKind")}
    given, conflict = copied(own), ("True", "NoConflicts", "no conflicts found")
    for key, reason, used in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        asked = texts(wanted, key) if key == "shortNames" else [text(wanted, key)]
        had = texts(own, key) if key == "shortNames" else [text(own, key)]
        taken = [f'"{one}" is already in use' for one in asked if one not in had and one in used]
        if taken:  # the condition tells the last of several
            words = taken[0] if len(taken) == 1 else f"[{', '.join(taken)}]"
            conflict = ("False", reason, words)
        elif key in wanted:
            given[key] = wanted[key]
        else:
            given.pop(key, None)
    given.pop("categories", None)
    if texts(wanted, "categories"):
        given["categories"] = wanted["categories"]
    given = {key: given[key] for key in _NAMES if key in given}
    conditions = with_condition(definition, "NamesAccepted", conflict)
    if same_names(given, own) and conditions == _undated(mappings(definition, "status", "conditions")):
        return None
    return {"acceptedNames": given, "conditions": _established(conditions, conflict[0])}


def same_names(one: JsonObject, other: JsonObject) -> bool:
    """Whether two sets of names are the same, unset and empty ones included."""
    keys = ("plural", "singular", "kind", "listKind")
    lists = ("shortNames", "categories")
    return all(text(one, key) == text(other, key) for key in keys) and all(
        texts(one, key) == texts(other, key) for key in lists
    )


def _established(conditions: list[JsonValue], accepted: str) -> list[JsonValue]:
    """The conditions with that of being served, which once true stays so."""
    definition: JsonObject = {"status": {"conditions": conditions}}
    if is_established(definition):
        return conditions
    if accepted == "True":
        said = ("True", "InitialNamesAccepted", "the initial names have been accepted")
    else:
        said = ("False", "NotAccepted", "not all names are accepted")
    return with_condition(definition, "Established", said)


def _condition(definition: JsonObject, name: str) -> JsonObject:
    found = mappings(definition, "status", "conditions")
    return next((one for one in found if text(one, "type") == name), {})


def with_condition(definition: JsonObject, name: str, said: tuple[str, str, str]) -> list[JsonValue]:
    """The conditions, without their moments, with one of them as said: status, reason, message."""
    status, reason, message = said
    new: JsonObject = {"type": name, "status": status, "reason": reason, "message": message}
    known = _undated(mappings(definition, "status", "conditions"))
    if not any(isinstance(one, dict) and text(one, "type") == name for one in known):
        return [*known, new]
    return [new if isinstance(one, dict) and text(one, "type") == name else one for one in known]


def _undated(conditions: list[JsonObject]) -> list[JsonValue]:
    return [{key: value for key, value in one.items() if key != "lastTransitionTime"} for one in conditions]
