"""Rules in CEL of a custom kind's schema, before anything is evaluated.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation (validation.go), v1.35.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tonnage.decide.kubernetes.api.custom.field_paths import PathError, followed
from tonnage.decide.kubernetes.api.custom.go_schema import rule_in_go
from tonnage.decide.kubernetes.api.custom.kinds import LARGEST_REQUEST
from tonnage.decide.kubernetes.api.custom.rules import compiled_rule, uses_old_self
from tonnage.decide.kubernetes.api.problems import forbidden, invalid, required, unsupported
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors
from tonnage.decide.kubernetes.cel.cost.ranges import MOST
from tonnage.decide.kubernetes.cel.types.kinds import CelKind
from tonnage.decide.kubernetes.claims.cel_errors import CelUnsupportedError
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, text

_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_MOST_OF_ONE: Final = 10_000_000
_MOST_OF_ALL: Final = 100_000_000
_NAMED: Final = 4
_BREAK: Final = re.compile(r"[\n\r]")


def rule_text(rule: JsonObject, schema: JsonObject, path: str) -> FieldErrors:
    """What is wrong with a rule before anybody compiles it."""
    written, message, reason = text(rule, "rule").strip(), text(rule, "message"), text(rule, "reason")
    if not written:
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _BREAK.search(message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif _BREAK.search(written) and not message:
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    computed = text(rule, "messageExpression")
    if computed and not computed.strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if reason and reason not in _REASONS:
        yield unsupported(f"{path}.reason", reason, _REASONS)
    where = text(rule, "fieldPath")
    if where and not where.strip():
        yield invalid(f"{path}.fieldPath", where, "must be non-empty if specified")
    if _BREAK.search(where):
        yield invalid(f"{path}.fieldPath", where, "must not contain line breaks")
    if where:
        try:
            followed(where, schema)
        except PathError:
            yield invalid(f"{path}.fieldPath", where, "must be a valid path")


@dataclass(slots=True)
class RuleCosts:
    """What all rules of a schema cost at most, and the dearest of them."""

    total: int = 0
    dearest: list[tuple[int, str]] = field(default_factory=list)

    def observe(self, path: str, cost: int) -> None:
        self.total = min(self.total + cost, MOST)
        if cost >= _MOST_OF_ALL // 100:
            self.dearest.append((cost, path))
            self.dearest.sort(key=lambda entry: -entry[0])
            del self.dearest[_NAMED:]


@dataclass(frozen=True, slots=True)
class RulePlace:
    """Where a level's rules stand, how often its values are there, above which nothing old is known."""

    path: str
    kind: CelKind
    often: int
    uncorrelated: str
    costs: RuleCosts


def compiled_rules(rules: Sequence[JsonObject], place: RulePlace) -> FieldErrors:
    """What the compiler has against rules, what is too dear, and what looks at an unknown old value."""
    for index, rule in enumerate(rules):
        yield from _compiled(rule, place, f"{place.path}[{index}]")


def _compiled(rule: JsonObject, place: RulePlace, path: str) -> FieldErrors:
    shown = rule_in_go(rule)
    try:
        compiled = compiled_rule(rule, place.kind)
    except CelUnsupportedError as error:
        yield invalid(f"{path}.rule", shown, f"this server cannot evaluate the rule: {error}")
        return
    cost = min(compiled.rule_cost * place.often, MOST)
    if cost > _MOST_OF_ONE:
        yield forbidden(f"{path}.rule", over_budget("estimated rule cost", cost, _MOST_OF_ONE))
    place.costs.observe(f"{path}.rule", cost)
    if compiled.rule:
        yield invalid(f"{path}.rule", shown, compiled.rule)
    if compiled.message:
        yield invalid(f"{path}.messageExpression", shown, compiled.message)
    elif text(rule, "messageExpression") and not compiled.rule:
        if compiled.message_cost > _MOST_OF_ONE:
            words = over_budget("estimated messageExpression cost", compiled.message_cost, _MOST_OF_ONE)
            yield forbidden(f"{path}.messageExpression", words)
        place.costs.observe(f"{path}.messageExpression", compiled.message_cost)
    yield from _old_value(rule, place, path, compiled=not compiled.rule)


def _old_value(rule: JsonObject, place: RulePlace, path: str, *, compiled: bool) -> FieldErrors:
    if compiled and uses_old_self(rule):
        if place.uncorrelated:
            words = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            yield invalid(f"{path}.rule", text(rule, "rule"), words + place.uncorrelated)
    elif at(rule, "optionalOldSelf") is not None:
        words = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{path}.optionalOldSelf", at(rule, "optionalOldSelf"), words)


def rules_too_dear(costs: RuleCosts, path: str) -> FieldErrors:
    """All rules of a schema together."""
    if costs.total <= _MOST_OF_ALL:
        return
    for _, where in costs.dearest:
        words = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        yield forbidden(where, words)
    subject = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    yield forbidden(path, over_budget(subject, costs.total, _MOST_OF_ALL))


def over_budget(subject: str, cost: int, limit: int) -> str:
    """
    >>> over_budget("estimated rule cost", 25_000_000, 10_000_000)[:56]
    'estimated rule cost exceeds budget by factor of 2.5x (tr'
    """
    times = cost / limit
    factor = "more than 100x" if times > 100 else f"{times:.6f}x" if times < 1.5 else f"{times:.1f}x"
    return (
        f"{subject} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, "
        "maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def most_inside(schema: JsonObject) -> int | None:
    """How many values of what is in a schema one of its own can hold; None where nothing bounds them."""
    match text(schema, "type"):
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            most = at(schema, "maxProperties")
        case "array":
            most = at(schema, "maxItems")
        case _:
            return 1
    return max(most, 0) if isinstance(most, int) else None


def most_of_size(kind: CelKind) -> int:
    """How many values of a type one request can hold."""
    return LARGEST_REQUEST // (kind.least + 1)
