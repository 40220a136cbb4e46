"""Events, as `v1` takes them, and as `events.k8s.io/v1` does, which is stricter.

Source: pkg/apis/core/validation/events.go (v1.35). Refusals name the fields as the server holds them, so both
take an Event as it is stored.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import complaints, invalid, required
from tonnage.decide.kubernetes.api.validation.fields import IMMUTABLE, FieldErrors, unchanged
from tonnage.decide.kubernetes.api.validation.metadata import metadata_changed, namespaced_metadata
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping, number, text

_LONGEST: Final = (("reportingInstance", 128), ("action", 128), ("reason", 128))
_LONGEST_MESSAGE: Final = 1024
_STRAY: Final = "does not match event.namespace"
_OLD: Final = "needs to be unset"
_STAYS: Final = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)
_REFERENCE: Final = {
    "kind": "Kind",
    "namespace": "Namespace",
    "name": "Name",
    "uid": "UID",
    "apiVersion": "APIVersion",
    "resourceVersion": "ResourceVersion",
    "fieldPath": "FieldPath",
}
_PARTS: Final = {
    "involvedObject": _REFERENCE,
    "related": _REFERENCE,
    "source": {"component": "Component", "host": "Host"},
}
_NUMBERS: Final = ("count",)
_TEXTS: Final = ("reason", "message", "type", "action", "reportingComponent", "reportingInstance")
_FIRST_NAMES: Final = {"reportingComponent": "reportingController"}


def event(obj: JsonObject) -> FieldErrors:
    """An Event of `v1`, new or changed."""
    yield from _any_event(obj, "reportingComponent")


def renamed_event(obj: JsonObject) -> FieldErrors:
    """A new Event of `events.k8s.io/v1`."""
    yield from _any_event(obj, "reportingController")
    yield from namespaced_metadata(obj)
    yield from _series(obj)
    if not obj.get("eventTime"):
        yield required("eventTime")
    if text(obj, "type") not in ("Normal", "Warning"):
        yield invalid("type", "", f"has invalid value: {text(obj, 'type')}")
    for key in ("firstTimestamp", "lastTimestamp", "count"):
        if obj.get(key):
            yield invalid(key, "", _OLD)
    if any(mapping(obj, "source").values()):
        yield invalid("source", "", _OLD)


def renamed_event_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed Event of `events.k8s.io/v1`: only its series goes on."""
    yield from _any_event(new, "reportingController")
    yield from metadata_changed(new, old)
    if new.get("series") != old.get("series"):
        yield from _series(new)
    for key in _STAYS:
        shown = _FIRST_NAMES.get(key, key)
        if key in _TEXTS:
            if text(new, key) != text(old, key):
                yield invalid(shown, text(new, key), IMMUTABLE)
        elif key in _NUMBERS:
            if number(new, key) != number(old, key):
                yield invalid(shown, number(new, key), IMMUTABLE)
        else:
            yield from unchanged(_in_go(key, new), _in_go(key, old), shown)


def _in_go(key: str, obj: JsonObject) -> JsonValue:
    """What a refusal shows of a field; parts are shown by the names that they have in Go, set or not."""
    names_in_go = _PARTS.get(key)
    value = obj.get(key)
    if names_in_go is None or value is None:
        return value
    shown: JsonObject = {go: text(mapping(obj, key), name) for name, go in names_in_go.items()}
    return shown


def _series(obj: JsonObject) -> FieldErrors:
    if obj.get("series") is None:
        return
    series = mapping(obj, "series")
    if number(series, "count") < 2:
        yield invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")


def _any_event(obj: JsonObject, controller_field: str) -> FieldErrors:
    """An Event lies in the namespace of what it is about; one with a time says who reports it."""
    home, about = text(obj, "metadata", "namespace"), text(obj, "involvedObject", "namespace")
    if not obj.get("eventTime"):
        if (about and about != home) or (not about and home not in ("", "default")):
            yield invalid("involvedObject.namespace", about, _STRAY)
    else:
        if not about and home not in ("default", "kube-system"):
            yield invalid("involvedObject.namespace", about, _STRAY)
        yield from _reporter(obj, controller_field)
    yield from complaints("namespace", home, names.dns_subdomain(home, "characters"))


def _reporter(obj: JsonObject, controller_field: str) -> FieldErrors:
    controller = text(obj, "reportingComponent")
    if not controller:
        yield required(controller_field)
    yield from complaints(controller_field, controller, names.qualified_name(controller))
    for key, longest in _LONGEST:
        if not text(obj, key):
            yield required(key)
        if len(text(obj, key).encode()) > longest:
            yield invalid(key, "", f"can have at most {longest} characters")
    if len(text(obj, "message").encode()) > _LONGEST_MESSAGE:
        yield invalid("message", "", f"can have at most {_LONGEST_MESSAGE} characters")
