"""Pods as refusals show them: every field by its name in Go, set or not, and what differs line by line.

Source: pkg/apis/core/types.go, k8s.io/apimachinery pkg/util/diff (v1.35).
"""

from __future__ import annotations

import json
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping
from tonnage.wire.schema import load_go_names

_IN_CONTEXT: Final = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
"""Fields of a pod that Go keeps in its security context."""


def pod_spec_in_go(spec: JsonObject) -> JsonObject:
    """The spec of a pod."""
    moved: JsonObject = {key: spec[key] for key in _IN_CONTEXT if key in spec}
    if moved:
        spec = {**spec, "securityContext": {**mapping(spec, "securityContext"), **moved}}
    return in_go("PodSpec", spec)


def template_in_go(template: JsonObject) -> JsonObject:
    """A template of pods."""
    return {**mapping(template, "metadata"), "Spec": pod_spec_in_go(mapping(template, "spec"))}


def difference(old: JsonObject, new: JsonObject) -> str:
    """Two objects line by line, as refusals of a change end.

    >>> print(difference({"A": 1}, {"A": 2}))
    @@ -1,3 +1,3 @@
     {
    - "A": 1
    + "A": 2
     }
    <BLANKLINE>
    """
    import difflib

    before, after = (json.dumps(obj, indent=1, ensure_ascii=False).splitlines() for obj in (old, new))
    lines = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    return "".join(f"{line}\n" for line in lines)


def in_go(name: str, obj: JsonObject) -> JsonObject:
    """An object of a type in Go that a pod is made of."""
    shown: JsonObject = {}
    for go, key, held, unset in load_go_names()[name]:
        value = obj.get(key)
        if held == "inline":
            shown.update(mapping(value))
        elif held == "plain":
            shown[go] = unset if value is None else value
        elif held == "value":
            shown[go] = in_go(str(unset), mapping(value))
        elif held == "map" and isinstance(value, dict):
            shown[go] = dict(sorted(value.items()))
        else:
            shown[go] = _held(str(unset), value)
    return shown


def _held(name: str, value: JsonValue) -> JsonValue:
    """What a pointer or a list holds, of a type of Go or as it is."""
    match value:
        case list() if name:
            return [in_go(name, mapping(element)) for element in value]
        case dict() if name:
            return in_go(name, value)
    return value
