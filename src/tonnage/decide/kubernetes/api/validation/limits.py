"""LimitRanges and RuntimeClasses: bounds that do not contradict each other, a handler that never changes.

Source: pkg/apis/core/validation (ValidateLimitRange), pkg/apis/node/validation, v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.go_values import in_go
from tonnage.decide.kubernetes.api.problems import complaints, duplicate, forbidden, invalid, required
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors, labels, tolerations, unchanged
from tonnage.decide.kubernetes.api.validation.resources import (
    container_resource_name,
    is_native,
    requirements,
    resource_name,
)
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, mapping, mappings, text
from tonnage.model.kubernetes.quantity import canonical_quantity, parse_quantity

_LIMIT_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_BOUNDS: Final = (
    ("min", "max", "min", 0, "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", 1, "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", 0, "default request value {} is greater than max value {}"),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        0,
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", 0, "min value {} is greater than default value {}"),
    ("default", "max", "default", 1, "default value {} is greater than max value {}"),
)
"""What may not exceed what, the field that is told, which of the two values, and the words."""


def limit_range(obj: JsonObject) -> FieldErrors:
    """A LimitRange: types once each, bounds that do not contradict each other."""
    types: set[str] = set()
    for index, limit in enumerate(mappings(obj, "spec", "limits")):
        path, kind = f"spec.limits[{index}]", text(limit, "type")
        wrong = names.qualified_name(kind)
        yield from complaints(f"{path}.type", kind, wrong)
        if not wrong and "/" not in kind and kind not in _LIMIT_TYPES:
            yield invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified")
        if kind in types:
            yield duplicate(f"{path}.type", kind)
        types.add(kind)
        yield from _limit(limit, kind, path)


def _limit(limit: JsonObject, kind: str, path: str) -> FieldErrors:
    rule = container_resource_name if kind in ("Pod", "Container") else resource_name
    for key in ("max", "min", "default", "defaultRequest"):
        if kind == "Pod" and key in ("default", "defaultRequest"):
            if mapping(limit, key):
                yield forbidden(f"{path}.{key}", "may not be specified when `type` is 'Pod'")
            continue
        for name in sorted(mapping(limit, key)):
            yield from rule(name, f"{path}.{key}[{name}]")
    bound = any(at(limit, key, "storage") is not None for key in ("min", "max"))
    if kind == "PersistentVolumeClaim" and not bound:
        words = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{path}.limits", words)
    ratios = mapping(limit, "maxLimitRequestRatio")
    for name in sorted(ratios):
        yield from rule(name, f"{path}.maxLimitRequestRatio[{name}]")
    rows = [
        mapping(limit, key) for key in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    ]
    for name in sorted({name for row in rows for name in row}):
        yield from _of_resource(limit, name, path)


def _of_resource(limit: JsonObject, name: str, path: str) -> FieldErrors:
    """What is wrong with the bounds of one resource."""
    bounds = {key: str(mapping(limit, key)[name]) for key in limit if name in mapping(limit, key)}
    for lower, upper, where, side, words in _BOUNDS:
        if lower not in bounds or upper not in bounds:
            continue
        sides = canonical_quantity(bounds[lower]), canonical_quantity(bounds[upper])
        if parse_quantity(sides[0]) > parse_quantity(sides[1]):
            yield invalid(f"{path}.{where}[{name}]", sides[side], words.format(*sides))
    yield from _ratio(bounds, f"{path}.maxLimitRequestRatio[{name}]")
    default, default_request = bounds.get("default"), bounds.get("defaultRequest")
    if default is None or default_request is None or (is_native(name) and not name.startswith("hugepages-")):
        return
    if parse_quantity(default) != parse_quantity(default_request):
        words = f"default value {default} must equal to defaultRequest value {default_request} in {name}"
        yield invalid(f"{path}.defaultRequest[{name}]", default_request, words)


def _ratio(bounds: dict[str, str], path: str) -> FieldErrors:
    if "maxLimitRequestRatio" not in bounds:
        return
    written = canonical_quantity(bounds["maxLimitRequestRatio"])
    ratio = parse_quantity(written)
    if ratio < 1:
        yield invalid(path, written, f"ratio {written} is less than 1")
    if "min" in bounds and "max" in bounds and (least := parse_quantity(bounds["min"])):
        most = parse_quantity(bounds["max"]) / least
        if ratio > most:
            yield invalid(path, written, f"ratio {written} is greater than max/min = {float(most):.6f}")


def runtime_class(obj: JsonObject) -> FieldErrors:
    """A new RuntimeClass."""
    handler = text(obj, "handler")
    yield from complaints("handler", handler, names.dns_label(handler))
    if overhead := mapping(obj, "overhead", "podFixed"):
        yield from requirements({"limits": overhead}, "overhead")
    selector = mapping(obj, "scheduling", "nodeSelector")
    yield from labels(selector, "scheduling.nodeSelector")
    tolerated = mappings(obj, "scheduling", "tolerations")
    yield from tolerations(tolerated, "scheduling.tolerations")
    seen_tolerations = []
    for index, toleration in enumerate(tolerated):
        same = [text(toleration, key) for key in ("key", "operator", "value", "effect")]
        if same in seen_tolerations:
            yield duplicate(f"scheduling.tolerations[{index}]", in_go("Toleration", toleration))
        seen_tolerations.append(same)


def runtime_class_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed one, whose handler stays."""
    yield from runtime_class(new)
    yield from unchanged(new.get("handler"), old.get("handler"), "handler")
