"""Where a pod wants to be: node selectors, affinity to nodes and pods, spreading."""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import (
    complaints,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors, label_selector, one_of_if_set
from tonnage.model.json import JsonObject
from tonnage.model.json_access import items, mapping, mappings, number, text, texts
from tonnage.model.kubernetes.well_known import PREFERRED, REQUIRED

_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES: Final = ("Honor", "Ignore")


def affinity(rules: JsonObject, path: str) -> FieldErrors:
    """All three sorts of affinity."""
    node = mapping(rules, "nodeAffinity")
    if node.get(REQUIRED) is not None:
        yield from node_selector(mapping(node, REQUIRED), f"{path}.nodeAffinity.{REQUIRED}")
    for index, term in enumerate(mappings(node, PREFERRED)):
        where = f"{path}.nodeAffinity.{PREFERRED}[{index}]"
        yield from _weight(term, where)
        yield from _term(mapping(term, "preference"), f"{where}.preference", values=False)
    for key in ("podAffinity", "podAntiAffinity"):
        pods = mapping(rules, key)
        for index, term in enumerate(mappings(pods, REQUIRED)):
            yield from _pod_term(term, f"{path}.{key}.{REQUIRED}[{index}]")
        for index, term in enumerate(mappings(pods, PREFERRED)):
            where = f"{path}.{key}.{PREFERRED}[{index}]"
            yield from _weight(term, where)
            yield from _pod_term(mapping(term, "podAffinityTerm"), f"{where}.podAffinityTerm")


def _weight(term: JsonObject, path: str) -> FieldErrors:
    if not 1 <= (weight := number(term, "weight")) <= 100:
        yield invalid(f"{path}.weight", weight, "must be in the range 1-100")


def node_selector(selector: JsonObject, path: str) -> FieldErrors:
    """A NodeSelector: terms of which one must hold."""
    terms = mappings(selector, "nodeSelectorTerms")
    if not terms:
        yield required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from _term(term, f"{path}.nodeSelectorTerms[{index}]", values=True)


def _term(term: JsonObject, path: str, *, values: bool) -> FieldErrors:
    for index, requirement in enumerate(mappings(term, "matchExpressions")):
        yield from _node_requirement(requirement, f"{path}.matchExpressions[{index}]", values=values)
    for index, requirement in enumerate(mappings(term, "matchFields")):
        yield from _field_requirement(requirement, f"{path}.matchFields[{index}]")


def _node_requirement(requirement: JsonObject, path: str, *, values: bool) -> FieldErrors:
    operator, operands = text(requirement, "operator"), texts(requirement, "values")
    match operator:
        case "In" | "NotIn":
            if not operands:
                yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if operands:
                words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{path}.values", words)
        case "Gt" | "Lt":
            if len(operands) != 1:
                words = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield required(f"{path}.values", words)
        case _:
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    key = text(requirement, "key")
    yield from complaints(f"{path}.key", key, names.qualified_name(key))
    if values:
        for index, value in enumerate(operands):
            yield from complaints(f"{path}.values[{index}]", value, names.label_value(value))


def _field_requirement(requirement: JsonObject, path: str) -> FieldErrors:
    operator, operands = text(requirement, "operator"), texts(requirement, "values")
    if operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(operands) != 1:
        words = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", words)
    if (key := text(requirement, "key")) != "metadata.name":
        yield invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(operands):
        yield from complaints(f"{path}.values[{index}]", value, names.dns_subdomain(value))


def _pod_term(term: JsonObject, path: str) -> FieldErrors:
    yield from label_selector(mapping(term, "labelSelector"), f"{path}.labelSelector")
    yield from label_selector(mapping(term, "namespaceSelector"), f"{path}.namespaceSelector")
    for namespace in texts(term, "namespaces"):
        yield from complaints(f"{path}.namespace", namespace, names.dns_label(namespace))
    yield from _label_keys(term, path)
    key = text(term, "topologyKey")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from complaints(f"{path}.topologyKey", key, names.qualified_name(key))


def spread_constraints(constraints: list[JsonObject], path: str) -> FieldErrors:
    """Topology spread constraints; key and action together stand once."""
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        key, action = text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable")
        if (skew := number(constraint, "maxSkew")) <= 0:
            yield invalid(f"{where}.maxSkew", skew, "must be greater than zero")
        if not key:
            yield required(f"{where}.topologyKey", "can not be empty")
        if action not in _ACTIONS:
            yield unsupported(f"{where}.whenUnsatisfiable", action, _ACTIONS)
        rest = [
            (text(other, "topologyKey"), text(other, "whenUnsatisfiable"))
            for other in constraints[index + 1 :]
        ]
        if (key, action) in rest:
            yield duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        yield from _spread_details(constraint, action, where)


def _spread_details(constraint: JsonObject, action: str, path: str) -> FieldErrors:
    if constraint.get("minDomains") is not None:
        domains = number(constraint, "minDomains")
        if domains <= 0:
            yield invalid(f"{path}.minDomains", domains, "must be greater than zero")
        if action != "DoNotSchedule":
            words = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            yield invalid(f"{path}.minDomains", domains, words)
    for key in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        yield from one_of_if_set(constraint, key, _POLICIES, path)
    yield from _label_keys(constraint, path)
    yield from label_selector(mapping(constraint, "labelSelector"), f"{path}.labelSelector")


def _label_keys(owner: JsonObject, path: str) -> FieldErrors:
    """Labels whose values the pod's own ones are compared with; in a selector they stand but once."""
    for key in ("matchLabelKeys", "mismatchLabelKeys"):
        if items(owner, key) and owner.get("labelSelector") is None:
            yield forbidden(f"{path}.{key}", "must not be specified when labelSelector is not set")
            continue
        for index, name in enumerate(texts(owner, key)):
            yield from complaints(f"{path}.{key}[{index}]", name, names.qualified_name(name))
    match_keys = texts(owner, "matchLabelKeys")
    selector_keys = set(mapping(owner, "labelSelector", "matchLabels"))
    for expression in mappings(owner, "labelSelector", "matchExpressions"):
        key = text(expression, "key")
        if key in match_keys and key in selector_keys:
            where = f"{path}[{len(match_keys) - 1 - match_keys[::-1].index(key)}]"
            yield invalid(where, key, "exists in both matchLabelKeys and labelSelector")
        selector_keys.add(key)
    for index, key in enumerate(match_keys):
        if key in texts(owner, "mismatchLabelKeys"):
            words = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{path}.matchLabelKeys[{index}]", key, words)
