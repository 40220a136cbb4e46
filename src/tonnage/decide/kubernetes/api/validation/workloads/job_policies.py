"""What a Job says of failed pods, and of when it has succeeded.

Source: pkg/apis/batch/validation of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import (
    FieldError,
    FieldErrorType,
    complaints,
    duplicate,
    invalid,
    quoted,
    required,
    too_long,
    too_many,
    unsupported,
)
from tonnage.decide.kubernetes.api.validation.conditions import STATES
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors, nonnegative
from tonnage.decide.kubernetes.api.validation.workloads.job_indexes import IndexesError, number_of_indexes
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import items, mapping, mappings, number, text

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_MOST_RULES: Final = 20
_MOST_CODES: Final = 255
_LONGEST_INDEXES: Final = 64 * 1024


def failure_policy(spec: JsonObject, path: str) -> FieldErrors:
    """A podFailurePolicy, if there is one."""
    if spec.get("podFailurePolicy") is None:
        return
    rules, where = mappings(spec, "podFailurePolicy", "rules"), f"{path}.rules"
    if len(rules) > _MOST_RULES:
        yield too_many(where, len(rules), _MOST_RULES)
    pod = mapping(spec, "template", "spec")
    container_names = {
        text(container, "name")
        for key in ("containers", "initContainers")
        for container in mappings(pod, key)
    }
    for index, rule in enumerate(rules):
        yield from _rule(spec, rule, f"{where}[{index}]", container_names)


def _rule(spec: JsonObject, rule: JsonObject, path: str, container_names: set[str]) -> FieldErrors:
    action = text(rule, "action")
    if not action:
        yield required(f"{path}.action", f"valid values: {_listed(_ACTIONS)}")
    elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        yield invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    elif action not in _ACTIONS:
        yield unsupported(f"{path}.action", action, _ACTIONS)
    codes, conditions = rule.get("onExitCodes"), mappings(rule, "onPodConditions")
    if codes is not None:
        yield from _exit_codes(mapping(rule, "onExitCodes"), f"{path}.onExitCodes", container_names)
    if conditions:
        yield from _conditions(conditions, f"{path}.onPodConditions")
    if (codes is not None) == bool(conditions):
        which = "both OnExitCodes and OnPodConditions is not supported"
        if codes is None:
            which = "one of OnExitCodes and OnPodConditions is required"
        yield FieldError(FieldErrorType.INVALID, path, None, f"specifying {which}", bare=True)


def _listed(words: tuple[str, ...]) -> str:
    return f"[{' '.join(map(quoted, words))}]"


def _exit_codes(codes: JsonObject, path: str, container_names: set[str]) -> FieldErrors:
    operator, values = text(codes, "operator"), items(codes, "values")
    if not operator:
        yield required(f"{path}.operator", f"valid values: {_listed(_OPERATORS)}")
    elif operator not in _OPERATORS:
        yield unsupported(f"{path}.operator", operator, _OPERATORS)
    name = codes.get("containerName")
    if name is not None and name not in container_names:
        words = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", name, words)
    if not values:
        yield invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > _MOST_CODES:
        yield too_many(f"{path}.values", len(values), _MOST_CODES)
    seen_codes: set[JsonValue] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in seen_codes:
            yield duplicate(f"{path}.values[{index}]", value)
        seen_codes.add(value)
    whole = [value for value in values if isinstance(value, int)]
    if whole != sorted(whole):
        yield invalid(f"{path}.values", values, "must be ordered")


def _conditions(patterns: list[JsonObject], path: str) -> FieldErrors:
    if len(patterns) > _MOST_RULES:
        yield too_many(path, len(patterns), _MOST_RULES)
    for index, pattern in enumerate(patterns):
        kind, status = text(pattern, "type"), text(pattern, "status")
        yield from complaints(f"{path}[{index}].type", kind, names.qualified_name(kind))
        if not status:
            yield required(f"{path}[{index}].status", f"valid values: {_listed(STATES)}")
        elif status not in STATES:
            yield unsupported(f"{path}[{index}].status", status, STATES)


def success_policy(spec: JsonObject, path: str) -> FieldErrors:
    """A successPolicy, if there is one."""
    if spec.get("successPolicy") is None:
        return
    rules = mappings(spec, "successPolicy", "rules")
    if text(spec, "completionMode") != "Indexed":
        yield invalid(path, policy_in_go(spec["successPolicy"]), "requires indexed completion mode")
        return
    if not rules:
        words = "at least one rules must be specified when the successPolicy is specified"
        yield required(f"{path}.rules", words)
    if len(rules) > _MOST_RULES:
        yield too_many(f"{path}.rules", len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        yield from _success_rule(spec, rule, f"{path}.rules[{index}]")


def policy_in_go(policy: JsonValue) -> JsonValue:
    """A policy as the server prints it: its internal fields have capital names."""
    if not isinstance(policy, dict):
        return policy
    rules: list[JsonValue] = [
        _failure_in_go(rule) if "action" in rule else _capital(rule, "SucceededIndexes SucceededCount")
        for rule in mappings(policy, "rules")
    ]
    return {"Rules": rules}


def _failure_in_go(rule: JsonObject) -> JsonObject:
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
    return {
        "Action": text(rule, "action"),
        "OnExitCodes": _capital(codes, "ContainerName Operator Values") if isinstance(codes, dict) else None,
        "OnPodConditions": [
            _capital(condition, "Type Status") for condition in mappings(rule, "onPodConditions")
        ]
        if conditions is not None
        else None,
    }


def _capital(fields: JsonObject, keys: str) -> JsonObject:
    return {key: fields.get(key[0].lower() + key[1:]) for key in keys.split()}


def _success_rule(spec: JsonObject, rule: JsonObject, path: str) -> FieldErrors:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    completions = number(spec, "completions")
    if indexes is None and count is None:
        words = "at least one of succeededCount or succeededIndexes must be specified"
        yield required(path, words)
    total = 0
    if isinstance(indexes, str):
        if len(indexes) > _LONGEST_INDEXES:
            yield too_long(f"{path}.succeededIndexes", _LONGEST_INDEXES)
        try:
            total = number_of_indexes(indexes, completions)
        except IndexesError as error:
            words = f"error parsing succeededIndexes: {error}"
            yield invalid(f"{path}.succeededIndexes", indexes, words)
    if count is None:
        return
    yield from nonnegative(rule, "succeededCount", path)
    succeeded = number(rule, "succeededCount")
    for most, bound in (
        (completions, "specified completions"),
        (total, "indexes in the specified succeededIndexes field"),
    ):
        if succeeded > most and (bound == "specified completions" or indexes is not None):
            words = f"must be less than or equal to {most} (the number of {bound})"
            yield invalid(f"{path}.succeededCount", succeeded, words)
