"""Events under two names: `v1`, as they are stored, and `events.k8s.io/v1`, which says the same otherwise.

Source: pkg/apis/events/v1/conversion.go (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject

STORED: Final = "v1"
RENAMED: Final = "events.k8s.io/v1"
_NAMES: Final = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_OPTIONAL: Final = ("reportingController", "reportingInstance")
_ALWAYS: Final = ("reportingComponent", "reportingInstance")
_BACK: Final = {stored: renamed for renamed, stored in _NAMES.items()}


def renamed_event(stored: JsonObject) -> JsonObject:
    """A stored Event as `events.k8s.io/v1` shows it.

    >>> renamed_event({"apiVersion": "v1", "message": "hi", "type": "Normal"})
    {'apiVersion': 'events.k8s.io/v1', 'note': 'hi', 'type': 'Normal', 'eventTime': None}
    """
    shown = {_BACK.get(key, key): value for key, value in stored.items()}
    shown.setdefault("eventTime", None)
    for key in _OPTIONAL:
        if shown.get(key) == "":
            del shown[key]
    return {**shown, "apiVersion": RENAMED}


def stored_event(shown: JsonObject) -> JsonObject:
    """The opposite: what is kept of an Event that was written under its second name."""
    named = {_NAMES.get(key, key): value for key, value in shown.items()}
    return {**dict.fromkeys(_ALWAYS, ""), **named, "apiVersion": STORED}


def stored_path(path: str) -> str:
    """A field selector's path in stored Events: `regarding.name` is `involvedObject.name`."""
    first, dot, rest = path.partition(".")
    return f"{_NAMES.get(first, first)}{dot}{rest}"
