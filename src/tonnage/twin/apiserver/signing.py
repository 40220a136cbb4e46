"""What writers of a certificate request's `status` and `approval` may change of it.

Source: pkg/registry/certificates/certificates/strategy.go (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.apiserver.access import copied, items, mapping, mappings, put, text
from tonnage.twin.apiserver.store import Resource

SIGNING_REQUEST: Final[Resource] = ("certificates.k8s.io", "certificatesigningrequests")
DECISIONS: Final = ("Approved", "Denied")


def conditions_of(obj: JsonObject, name: str) -> list[JsonObject]:
    """The conditions of one type."""
    return [one for one in mappings(obj, "status", "conditions") if text(one, "type") == name]


def kept_decisions(obj: JsonObject, old: JsonObject) -> None:
    """Put the old decisions in the place of as many new ones; more or fewer are left to be refused."""
    for name in DECISIONS:
        known = conditions_of(old, name)
        if len(conditions_of(obj, name)) == len(known):
            rest = iter(known)
            found: list[JsonValue] = [
                next(rest) if text(one, "type") == name else one
                for one in mappings(obj, "status", "conditions")
            ]
            if found:
                put(obj, found, "status", "conditions")


def date_conditions(obj: JsonObject, old: JsonObject, now: str) -> None:
    """Say since when a new condition is so, and since when it is told."""
    for one in mappings(obj, "status", "conditions"):
        one["lastUpdateTime"] = text(one, "lastUpdateTime") or now
        since = [
            text(was, "lastTransitionTime")
            for was in conditions_of(old, text(one, "type"))
            if was.get("status") == one.get("status") and text(was, "lastTransitionTime")
        ]
        one["lastTransitionTime"] = text(one, "lastTransitionTime") or (since or [now])[0]


def decided(obj: JsonObject, old: JsonObject) -> JsonObject:
    """`obj` with the old status, but for its conditions."""
    status: JsonObject = {**mapping(old, "status")}
    status.pop("conditions", None)
    if conditions := items(obj, "status", "conditions"):
        status["conditions"] = conditions
    return {**obj, "status": copied(status)}
