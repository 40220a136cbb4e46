"""Device classes, claims for devices and their templates; CEL that does not compile is refused.

Fields behind gates that are off in this version are gone before (`device_gates`).

Source: k8s.io/kubernetes pkg/apis/resource/validation, 1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.go_values import in_go
from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.decide.kubernetes.api.problems import (
    complaints,
    invalid,
    required,
    too_long,
    unsupported,
)
from tonnage.decide.kubernetes.api.validation.devices.driver_names import (
    configuration,
    each_element,
    full_attribute_name,
    label,
)
from tonnage.decide.kubernetes.api.validation.fields import IMMUTABLE, FieldErrors
from tonnage.decide.kubernetes.api.validation.metadata import template_metadata
from tonnage.decide.kubernetes.claims.cel_errors import CelUnsupportedError
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping, mappings, number, text, texts

_MINOR: Final = 35
_LONGEST: Final = 10 * 1024
_NO_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_MOST: Final = 32
"""Requests of a claim, selectors of a request or a class, constraints and configurations."""
_MOST_CHOICES: Final = 8


def device_class(obj: JsonObject) -> FieldErrors:
    """A DeviceClass."""
    yield from _selectors(mapping(obj, "spec"), "spec.selectors")
    yield from _configurations(obj)


def device_class_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed DeviceClass: selectors that stay as they are were fine once."""
    if same_json(mapping(new, "spec").get("selectors"), mapping(old, "spec").get("selectors")):
        yield from _configurations(new)
    else:
        yield from device_class(new)


def _configurations(obj: JsonObject) -> FieldErrors:
    yield from each_element(mappings(obj, "spec", "config"), _MOST, "spec.config", configuration)


def resource_claim(obj: JsonObject) -> FieldErrors:
    """A ResourceClaim."""
    yield from _devices(mapping(obj, "spec", "devices"), "spec.devices")


def resource_claim_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed ResourceClaim, which wants what it wanted."""
    yield from _unchanged_spec(new, old, "dra.ResourceClaimSpec")


def claim_template(obj: JsonObject) -> FieldErrors:
    """A ResourceClaimTemplate."""
    yield from template_metadata(mapping(obj, "spec", "metadata"), "spec.metadata")
    yield from _devices(mapping(obj, "spec", "spec", "devices"), "spec.spec.devices")


def claim_template_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed ResourceClaimTemplate, whose claims want what they wanted; what stands was fine once."""
    if not same_json(new.get("spec"), old.get("spec")):
        yield from claim_template(new)
    yield from _unchanged_spec(new, old, "dra.ResourceClaimTemplateSpec")


def _unchanged_spec(new: JsonObject, old: JsonObject, go_type: str) -> FieldErrors:
    if not same_json(mapping(new, "spec"), mapping(old, "spec")):
        yield invalid("spec", in_go(go_type, mapping(new, "spec")), IMMUTABLE)


def _devices(devices: JsonObject, path: str) -> FieldErrors:
    requests = mappings(devices, "requests")
    declared = request_names(requests)

    def constraint(entry: JsonObject, where: str) -> FieldErrors:
        yield from request_references(entry, where, declared)
        yield from _constraint(entry, where)

    def config(entry: JsonObject, where: str) -> FieldErrors:
        yield from request_references(entry, where, declared)
        yield from configuration(entry, where)

    yield from each_element(requests, _MOST, f"{path}.requests", _request, _name)
    yield from each_element(mappings(devices, "constraints"), _MOST, f"{path}.constraints", constraint)
    yield from each_element(mappings(devices, "config"), _MOST, f"{path}.config", config)


def _name(part: JsonObject) -> str:
    return text(part, "name")


def _request(request: JsonObject, path: str) -> FieldErrors:
    yield from label(text(request, "name"), f"{path}.name")
    exactly, choices = request.get("exactly"), mappings(request, "firstAvailable")
    if isinstance(exactly, dict) and choices:
        words = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        yield invalid(path, None, words)
    elif isinstance(exactly, dict):
        yield from _exact_request(exactly, f"{path}.exactly")
    elif choices:
        yield from each_element(choices, _MOST_CHOICES, f"{path}.firstAvailable", _choice, _name)
    else:
        yield required(path, "exactly one of `exactly` or `firstAvailable` is required")


def _choice(part: JsonObject, path: str) -> FieldErrors:
    yield from label(text(part, "name"), f"{path}.name")
    yield from _exact_request(part, path)


def _exact_request(part: JsonObject, path: str) -> FieldErrors:
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


def request_names(requests: list[JsonObject]) -> frozenset[str]:
    """Names of requests, and of their alternatives behind a slash."""
    all_names: set[str] = set()
    for request in requests:
        name = text(request, "name")
        all_names.add(name)
        all_names |= {f"{name}/{text(part, 'name')}" for part in mappings(request, "firstAvailable")}
    return frozenset(all_names)


def request_references(owner: JsonObject, path: str, requests: frozenset[str]) -> FieldErrors:
    """A list of names of requests."""

    def rule(name: str, where: str) -> FieldErrors:
        yield from request_reference(name, where, requests)

    yield from each_element(texts(owner, "requests"), _MOST, f"{path}.requests", rule, str)


def request_reference(name: str, path: str, requests: frozenset[str]) -> FieldErrors:
    """The name of a request, or of an alternative of one."""
    parts = name.split("/")
    if len(parts) <= 2:
        for part in parts:
            yield from label(part, path)
    if len(parts) > 2 or name not in requests:
        yield invalid(path, name, _NO_REQUEST)


def _constraint(constraint: JsonObject, path: str) -> FieldErrors:
    """Of two attributes the first counts; `distinctAttribute` has been dropped where its gate is off."""
    for key in ("matchAttribute", "distinctAttribute"):
        if isinstance(name := constraint.get(key), str):
            yield from full_attribute_name(name, f"{path}.{key}")
            return
    yield required(f"{path}.matchAttribute")


def _selectors(owner: JsonObject, path: str) -> FieldErrors:
    yield from each_element(mappings(owner, "selectors"), _MOST, path, _selector)


def _selector(selector: JsonObject, path: str) -> FieldErrors:
    if not isinstance(selector.get("cel"), dict):
        yield required(f"{path}.cel")
        return
    expression = text(selector, "cel", "expression")
    if len(expression.encode()) > _LONGEST:
        yield too_long(f"{path}.cel.expression", _LONGEST)
    elif error := _error(expression):
        yield invalid(f"{path}.cel.expression", expression, error)


def _error(expression: str) -> str:
    """What the compiler says; empty: it compiles, or nobody here can say."""
    from tonnage.decide.kubernetes.claims.expressions import CelSelector

    try:
        return CelSelector(expression, _MINOR).error
    except CelUnsupportedError:
        return ""
