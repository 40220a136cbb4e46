"""Selectors of device classes, claims and claim templates: CEL that does not compile is refused.

Source: k8s.io/kubernetes pkg/apis/resource/validation (validateCELSelector), 1.35.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.cluster.claims.cel_errors import UnsupportedError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import mapping, mappings, text
from tonnage.twin.apiserver.objects.patch import same_json
from tonnage.twin.apiserver.objects.problems import invalid, required, too_long
from tonnage.twin.apiserver.objects.validation.fields import Found

_MINOR: Final = 35
_LONGEST: Final = 10 * 1024
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
    for index, request in enumerate(mappings(devices, "requests")):
        for part, where in _parts(request, f"{path}.requests[{index}]"):
            yield from _selectors(part, f"{where}.selectors")


def _parts(request: JsonObject, path: str) -> Iterator[tuple[JsonObject, str]]:
    if isinstance(request.get("exactly"), dict):
        yield mapping(request, "exactly"), f"{path}.exactly"
    for index, part in enumerate(mappings(request, "firstAvailable")):
        yield part, f"{path}.firstAvailable[{index}]"


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
