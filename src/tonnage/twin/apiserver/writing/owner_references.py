"""Owners of an object that are named twice count once.

Source: dedupOwnerReferencesAndAddWarning of apiserver's endpoints/handlers/rest.go (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping, mappings, text
from tonnage.twin.apiserver.requests import RequestNotes

_SENT: Final = "contains duplicate entries"
_ADMITTED: Final = f"{_SENT} after mutating admission happens"
_REST: Final = (
    "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; "
    "please fix your requests; duplicate UID(s) observed:"
)


def keep_owners_once(obj: JsonObject, notes: RequestNotes, *, admitted: bool) -> None:
    """Take owners away that stand in `obj` twice, and warn of them. `admitted`: admission has had its say."""
    owners = mappings(obj, "metadata", "ownerReferences")
    unique: list[JsonValue] = []
    twice: list[str] = []
    for owner in owners:
        if owner in unique:
            twice.append(text(owner, "uid"))
        else:
            unique.append(owner)
    if twice:
        mapping(obj, "metadata")["ownerReferences"] = unique
        words = _ADMITTED if admitted else _SENT
        notes.warn(f".metadata.ownerReferences {words}; {_REST} {', '.join(twice)}")
