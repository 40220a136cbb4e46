"""Admission policies and their bindings, and the CEL in them and in webhooks' conditions.

Source: pkg/apis/admissionregistration/validation (v1.35).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.custom.kinds import RESERVED
from tonnage.decide.kubernetes.api.problems import (
    complaints,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
    unsupported,
)
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors, label_selector, one_of_if_set
from tonnage.decide.kubernetes.api.validation.webhooks import policies, rule_with_operations, webhooks
from tonnage.decide.kubernetes.cel.types.kinds import KnownKinds
from tonnage.decide.kubernetes.cel.types.policy_names import (
    ABOUT_WEBHOOKS,
    AUTHORIZER,
    BOOL,
    STRING,
    STRING_OR_NULL,
    known_names,
    names_of,
)
from tonnage.decide.kubernetes.claims.cel_errors import CelUnsupportedError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, items, mapping, mappings, text, texts

_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_MOST_CONDITIONS: Final = 64
_MOST_ANNOTATIONS: Final = 20
_LONGEST_ANNOTATION: Final = 5 * 1024
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")


def webhooks_with_conditions(obj: JsonObject) -> FieldErrors:
    """A configuration of webhooks."""
    yield from webhooks(obj, match_conditions)


def policy(obj: JsonObject) -> FieldErrors:
    """A ValidatingAdmissionPolicy."""
    spec = mapping(obj, "spec")
    failing = at(spec, "failurePolicy")
    if failing is None:
        yield required("spec.failurePolicy")
    else:
        yield from policies({"failurePolicy": failing}, "spec")
    param_kind = at(spec, "paramKind")
    params = ("params",) if isinstance(param_kind, dict) else ()
    if isinstance(param_kind, dict):
        yield from _param_kind(param_kind, "spec.paramKind")
    limits = at(spec, "matchConstraints")
    if not isinstance(limits, dict):
        yield required("spec.matchConstraints")
    else:
        yield from _match_resources(limits, "spec.matchConstraints")
        if not items(limits, "resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
    yield from match_conditions(mappings(spec, "matchConditions"), "spec.matchConditions", params)
    variables = mappings(spec, "variables")
    names_known = names_of(spec)
    for index, variable in enumerate(variables):
        variables_before = known_names(names_known, variables[:index])
        yield from _variable(variable, f"spec.variables[{index}]", variables_before)
    yield from _judgements(obj, known_names(names_known, variables))


def _judgements(obj: JsonObject, declared: KnownKinds) -> FieldErrors:
    spec = mapping(obj, "spec")
    validations, annotations = mappings(spec, "validations"), mappings(spec, "auditAnnotations")
    if not validations and not annotations:
        words = "validations or auditAnnotations must contain at least one item"
        yield required("spec.validations", words)
        yield required("spec.auditAnnotations", words)
        return
    for index, validation in enumerate(validations):
        yield from _validation(validation, f"spec.validations[{index}]", declared)
    if len(annotations) > _MOST_ANNOTATIONS:
        words = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        yield invalid("spec.auditAnnotations", items(spec, "auditAnnotations"), words)
    seen_keys: set[str] = set()
    for index, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{index}]", text(annotation, "key")
        name = f"{text(obj, 'metadata', 'name')}/{key}"
        yield from complaints(f"{path}.key", name, names.qualified_name(name))
        written = text(annotation, "valueExpression")
        if not written.strip():
            yield required(f"{path}.valueExpression", "valueExpression is not specified")
        elif len(written.strip().encode()) > _LONGEST_ANNOTATION:
            words = f"must not exceed {_LONGEST_ANNOTATION} bytes in length"
            yield required(f"{path}.valueExpression", words)
        else:
            yield from compiles(written, declared, STRING_OR_NULL, f"{path}.valueExpression")
        if key in seen_keys:
            yield duplicate(f"{path}.key", key)
        seen_keys.add(key)


def _validation(validation: JsonObject, path: str, declared: KnownKinds) -> FieldErrors:
    expression, message = text(validation, "expression"), text(validation, "message")
    computed = text(validation, "messageExpression")
    if not expression.strip():
        yield required(f"{path}.expression", "expression is not specified")
    else:
        yield from compiles(expression, declared, BOOL, f"{path}.expression")
    if computed and not computed.strip():
        yield invalid(f"{path}.messageExpression", computed, "must be non-empty if specified")
    elif computed:
        without_rights = tuple(entry for entry in declared if entry[0] not in AUTHORIZER)
        yield from compiles(computed, without_rights, STRING, f"{path}.messageExpression")
    if message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif re.search(r"[\n\r]", message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    yield from one_of_if_set(validation, "reason", _REASONS, path)


def _variable(variable: JsonObject, path: str, declared: KnownKinds) -> FieldErrors:
    name, expression = text(variable, "name"), text(variable, "expression")
    if not name.strip():
        yield required(f"{path}.name", "name is not specified")
    elif not _IDENTIFIER.fullmatch(name) or name in RESERVED:
        yield invalid(f"{path}.name", name, "must be a valid CEL identifier")
    if not expression.strip():
        yield required(f"{path}.expression", "expression is not specified")
    else:
        yield from compiles(expression, declared, (), f"{path}.expression")


def match_conditions(conditions: list[JsonObject], path: str, params: tuple[str, ...] = ()) -> FieldErrors:
    """`matchConditions` of a webhook or a policy."""
    if len(conditions) > _MOST_CONDITIONS:
        yield too_many(path, len(conditions), _MOST_CONDITIONS)
    seen_names: set[str] = set()
    declared = known_names((*ABOUT_WEBHOOKS, *params))
    for index, condition in enumerate(conditions):
        where, name = f"{path}[{index}]", text(condition, "name")
        expression = text(condition, "expression").strip()
        if not expression:
            yield required(f"{where}.expression")
        else:
            yield from compiles(expression, declared, BOOL, f"{where}.expression")
        if not name:
            yield required(f"{where}.name")
        else:
            yield from complaints(f"{where}.name", name, names.qualified_name(name))
            if name in seen_names:
                yield duplicate(f"{where}.name", name)
            seen_names.add(name)


def compiles(expression: str, declared: KnownKinds, types: tuple[str, ...], path: str) -> FieldErrors:
    """CEL of the type that is wanted, about these names. What nobody here can evaluate is refused."""
    from tonnage.decide.kubernetes.cel.expression import expression as compiled

    try:
        error = compiled(expression, declared, types).error
    except CelUnsupportedError as unsupported_here:
        error = f"this server cannot evaluate {unsupported_here}"
    if error:
        yield invalid(path, expression, error)


def _param_kind(kind: JsonObject, path: str) -> FieldErrors:
    version, name = text(kind, "apiVersion"), text(kind, "kind")
    if not version:
        yield required(f"{path}.apiVersion")
    elif version.count("/") > 1:
        yield invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    else:
        group, _, minor = version.rpartition("/")
        if group and (wrong := names.dns_subdomain(group)):
            yield invalid(f"{path}.apiVersion", group, ",".join(wrong))
        if not minor:
            yield invalid(f"{path}.apiVersion", version, "version must be specified")
        elif wrong := names.dns_label_1035(minor):
            yield invalid(f"{path}.apiVersion", minor, ",".join(wrong))
    if not name:
        yield required(f"{path}.kind")
    elif wrong := names.dns_label_1035(name.lower()):
        words = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        yield invalid(f"{path}.kind", name, words)


def _match_resources(limits: JsonObject, path: str) -> FieldErrors:
    yield from policies({"matchPolicy": at(limits, "matchPolicy")}, path)
    for key in ("namespaceSelector", "objectSelector"):
        yield from label_selector(mapping(limits, key), f"{path}.{key}")
    for key in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(mappings(limits, key)):
            where = f"{path}.{key}[{index}]"
            seen_names: set[str] = set()
            for place, name in enumerate(texts(rule, "resourceNames")):
                yield from complaints(f"{where}.resourceNames[{place}]", name, names.path_segment(name))
                if name in seen_names:
                    yield duplicate(f"{where}.resourceNames[{place}]", name)
                seen_names.add(name)
            yield from rule_with_operations(rule, where)


def binding(obj: JsonObject) -> FieldErrors:
    """A ValidatingAdmissionPolicyBinding."""
    spec = mapping(obj, "spec")
    name = text(spec, "policyName")
    if not name:
        yield required("spec.policyName")
    else:
        yield from complaints("spec.policyName", name, names.dns_subdomain(name))
    ref = at(spec, "paramRef")
    if isinstance(ref, dict):
        yield from _param_ref(ref, "spec.paramRef")
    limits = at(spec, "matchResources")
    if isinstance(limits, dict):
        yield from _match_resources(limits, "spec.matchResources")
    yield from _actions(items(spec, "validationActions"), "spec.validationActions")


def _actions(actions: Sequence[JsonValue], path: str) -> FieldErrors:
    seen_actions: set[str] = set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield unsupported(f"{path}[{index}]", str(action), _ACTIONS)
        if str(action) in seen_actions:
            yield duplicate(f"{path}[{index}]", str(action))
        seen_actions.add(str(action))
    if {"Deny", "Warn"} <= seen_actions:
        words = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the "
            "API response and headers serves no purpose)"
        )
        yield invalid(path, list(actions), words)
    if not actions:
        yield required(path, "at least one validation action is required")


def _param_ref(ref: JsonObject, path: str) -> FieldErrors:
    name, selector = text(ref, "name"), at(ref, "selector")
    both = "name and selector are mutually exclusive"
    if name:
        yield from complaints(f"{path}.name", name, names.path_segment(name))
        if selector is not None:
            yield forbidden(f"{path}.name", both)
    if isinstance(selector, dict):
        yield from label_selector(selector, f"{path}.selector")
        if name:
            yield forbidden(f"{path}.selector", both)
    if not name and selector is None:
        yield required(path, "one of name or selector must be specified")
    action = at(ref, "parameterNotFoundAction")
    if not action:
        yield required(f"{path}.parameterNotFoundAction")
    elif action not in ("Allow", "Deny"):
        yield unsupported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow"))
