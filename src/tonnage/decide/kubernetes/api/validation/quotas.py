"""ResourceQuotas: resources, amounts and scopes that go with them.

Source: pkg/apis/core/validation (ValidateResourceQuotaSpec), pkg/apis/core/helper (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api.problems import invalid, required
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors
from tonnage.decide.kubernetes.api.validation.resources import amount, counts_standard, quota_resource_name
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import items, mapping, mappings, text, texts

_OF_PODS: Final = (
    "pods",
    *(f"{part}{name}" for part in ("", "limits.", "requests.") for name in ("cpu", "memory")),
)
_SCOPES: Final = {
    "BestEffort": ("pods",),
    "CrossNamespacePodAffinity": _OF_PODS,
    "NotBestEffort": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "Terminating": _OF_PODS,
    "VolumeAttributesClass": ("persistentvolumeclaims", "requests.storage"),
}
"""Scopes, and what can be bounded in them."""
_PLAIN: Final = ("BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "Terminating")
_PAIRS: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_MUST_EXIST: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
    "ResourceQuotaScopeCrossNamespacePodAffinity"
)


def resource_quota(obj: JsonObject) -> FieldErrors:
    """A new ResourceQuota."""
    spec = mapping(obj, "spec")
    hard = mapping(spec, "hard")
    yield from _amounts(hard, "spec.hard")
    scopes = texts(spec, "scopes")
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid("spec.scopes", list(scopes), "unsupported scope")
        for _ in _misfits(scope, hard):
            yield invalid("spec.scopes", list(scopes), "unsupported scope applied to resource")
    yield from _conflicts(set(scopes), spec, "spec.scopes")
    yield from _selector(spec, hard)


def resource_quota_status(new: JsonObject, _old: JsonObject) -> FieldErrors:
    """What a ResourceQuota is said to bound and to have used."""
    for part in ("hard", "used"):
        yield from _amounts(mapping(new, "status", part), f"status.{part}")


def _amounts(amounts: JsonObject, path: str) -> FieldErrors:
    for name, quantity in sorted(amounts.items()):
        yield from quota_resource_name(name, f"{path}[{name}]")
        yield from amount(name, str(quantity), f"{path}[{name}]")


def resource_quota_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed ResourceQuota; its scopes stay."""
    yield from resource_quota(new)
    if set(texts(new, "spec", "scopes")) != set(texts(old, "spec", "scopes")):
        yield invalid("spec.scopes", items(new, "spec", "scopes"), "field is immutable")


def _misfits(scope: str, hard: JsonObject) -> list[str]:
    """Resources of Kubernetes itself that a scope does not bound."""
    fitting = _SCOPES.get(scope)
    return [name for name in hard if fitting and counts_standard(name) and name not in fitting]


def _conflicts(scopes: set[str], spec: JsonObject, path: str) -> FieldErrors:
    for pair in _PAIRS:
        if pair <= scopes:
            yield invalid(path, spec.get("scopes"), "conflicting scopes")


def _selector(spec: JsonObject, hard: JsonObject) -> FieldErrors:
    expressions, path = (
        mappings(spec, "scopeSelector", "matchExpressions"),
        "spec.scopeSelector.matchExpressions",
    )
    fields = (("ScopeName", "scopeName"), ("Operator", "operator"), ("Values", "values"))
    shown: list[JsonValue] = [
        {name: expression.get(key) for name, key in fields} for expression in expressions
    ]
    for expression in expressions:
        scope, operator, values = (
            text(expression, "scopeName"),
            text(expression, "operator"),
            items(expression, "values"),
        )
        if scope not in _SCOPES:
            yield invalid(f"{path}.scopeName", scope, "unsupported scope")
        for _ in _misfits(scope, hard):
            yield invalid(path, {"MatchExpressions": shown}, "unsupported scope applied to resource")
        if scope in _PLAIN and operator != "Exists":
            yield invalid(f"{path}.operator", operator, _MUST_EXIST)
        if operator in ("In", "NotIn"):
            if not values:
                words = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield required(f"{path}.values", words)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                words = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield invalid(f"{path}.values", list(values), words)
        else:
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from _conflicts({text(expression, "scopeName") for expression in expressions}, spec, path)
