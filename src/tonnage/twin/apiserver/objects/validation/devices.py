"""Selectors of device classes, claims and claim templates: CEL that does not compile is refused.

Source: k8s.io/kubernetes pkg/apis/resource/validation (validateCELSelector), 1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.cluster.claims.cel_errors import UnsupportedError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import mapping, mappings, number, text, texts
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.patch import same_json
from tonnage.twin.apiserver.objects.problems import (
    complaints,
    duplicate,
    invalid,
    required,
    too_long,
    unsupported,
)
from tonnage.twin.apiserver.objects.validation.fields import Found

_MINOR: Final = 35
_LONGEST: Final = 10 * 1024
_NO_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_MOST: Final = 32
"""Selectors of a request or a class that are looked at; the server takes no more."""


def device_class(obj: JsonObject) -> Found:
    """A DeviceClass."""
    yield from _selectors(mapping(obj, "spec"), "spec.selectors")


def device_class_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed DeviceClass: selectors that stay as they are were fine once."""
    if not same_json(mapping(new, "spec").get("selectors"), mapping(old, "spec").get("selectors")):
        yield from device_class(new)


def resource_claim(obj: JsonObject) -> Found:
    """A ResourceClaim."""
    yield from _requests(mapping(obj, "spec", "devices"), "spec.devices")


def resource_claim_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed ResourceClaim, or template, whose requests were fine once."""
    if not same_json(new.get("spec"), old.get("spec")):
        yield from resource_claim(new)


def claim_template(obj: JsonObject) -> Found:
    """A ResourceClaimTemplate."""
    yield from _requests(mapping(obj, "spec", "spec", "devices"), "spec.spec.devices")


def claim_template_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed ResourceClaimTemplate."""
    if not same_json(new.get("spec"), old.get("spec")):
        yield from claim_template(new)


def _requests(devices: JsonObject, path: str) -> Found:
    requests = mappings(devices, "requests")
    seen: set[str] = set()
    for index, request in enumerate(requests):
        where, name = f"{path}.requests[{index}]", text(request, "name")
        yield from _request(request, where)
        if name in seen:
            yield duplicate(where, name)
        seen.add(name)
    known = _names(requests)
    for index, constraint in enumerate(mappings(devices, "constraints")):
        where = f"{path}.constraints[{index}]"
        yield from _references(constraint, where, known)
        yield from _constraint(constraint, where)
    for index, config in enumerate(mappings(devices, "config")):
        where = f"{path}.config[{index}]"
        yield from _references(config, where, known)
        if not isinstance(config.get("opaque"), dict):
            yield required(f"{where}.opaque")


def _request(request: JsonObject, path: str) -> Found:
    yield from _label(text(request, "name"), f"{path}.name")
    exactly, choices = request.get("exactly"), mappings(request, "firstAvailable")
    if isinstance(exactly, dict) and choices:
        words = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        yield invalid(path, None, words)
    elif isinstance(exactly, dict):
        yield from _wanted(exactly, f"{path}.exactly")
    elif choices:
        seen: set[str] = set()
        for index, part in enumerate(choices):
            where, name = f"{path}.firstAvailable[{index}]", text(part, "name")
            yield from _label(name, f"{where}.name")
            yield from _wanted(part, where)
            if name in seen:
                yield duplicate(where, name)
            seen.add(name)
    else:
        yield required(path, "exactly one of `exactly` or `firstAvailable` is required")


def _wanted(part: JsonObject, path: str) -> Found:
    """What is asked for: a class, selectors, how many."""
    name = text(part, "deviceClassName")
    if not name:
        yield required(f"{path}.deviceClassName")
    else:
        yield from complaints(f"{path}.deviceClassName", name, names.dns_subdomain(name))
    yield from _selectors(part, f"{path}.selectors")
    mode, count = text(part, "allocationMode"), number(part, "count")
    match mode:
        case "All":
            if count:
                words = "must not be specified when allocationMode is 'All'"
                yield invalid(f"{path}.count", count, words)
        case "ExactCount":
            if count <= 0:
                yield invalid(f"{path}.count", count, "must be greater than zero")
        case _ if "allocationMode" in part:  # which defaults have filled in
            yield unsupported(f"{path}.allocationMode", mode, ("All", "ExactCount"))


def _label(name: str, path: str) -> Found:
    yield from complaints(path, name, names.dns_label(name))


def _names(requests: list[JsonObject]) -> frozenset[str]:
    """Names of requests, and of their alternatives behind a slash."""
    found: set[str] = set()
    for request in requests:
        name = text(request, "name")
        found.add(name)
        found |= {f"{name}/{text(part, 'name')}" for part in mappings(request, "firstAvailable")}
    return frozenset(found)


def _references(owner: JsonObject, path: str, known: frozenset[str]) -> Found:
    seen: set[str] = set()
    for index, name in enumerate(texts(owner, "requests")):
        where = f"{path}.requests[{index}]"
        parts = name.split("/")
        if len(parts) <= 2:
            for part in parts:
                yield from _label(part, where)
        if len(parts) > 2 or name not in known:
            yield invalid(where, name, _NO_REQUEST)
        if name in seen:
            yield duplicate(where, name)
        seen.add(name)


def _constraint(constraint: JsonObject, path: str) -> Found:
    name = constraint.get("matchAttribute")
    if not isinstance(name, str):
        yield required(f"{path}.matchAttribute")
    elif "/" not in name:
        words = "a fully qualified name must be a domain and a name separated by a slash"
        yield invalid(f"{path}.matchAttribute", name, words)


def _selectors(owner: JsonObject, path: str) -> Found:
    for index, selector in enumerate(mappings(owner, "selectors")[:_MOST]):
        where = f"{path}[{index}].cel"
        if not isinstance(selector.get("cel"), dict):
            yield required(where)
            continue
        expression = text(selector, "cel", "expression")
        if len(expression.encode()) > _LONGEST:
            yield too_long(f"{where}.expression", _LONGEST)
        elif error := _error(expression):
            yield invalid(f"{where}.expression", expression, error)


def _error(expression: str) -> str:
    """What the compiler says; empty: it compiles, or nobody here can say."""
    from tonnage.decide.cluster.claims.expressions import Selector

    try:
        return Selector(expression, _MINOR).error
    except UnsupportedError:
        return ""
