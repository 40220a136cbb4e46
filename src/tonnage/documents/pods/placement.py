"""Spread constraints and affinity between pods that the API server refuses.

Source: k8s.io/kubernetes pkg/apis/core/validation, k8s.io/apimachinery pkg/apis/meta/v1/validation, 1.35.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tonnage.documents.nearest import nearest
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.name_words import wrong_in_key, wrong_in_value
from tonnage.model.kubernetes.well_known import PREFERRED, REQUIRED
from tonnage.model.reasons.pod.admission import FieldReason, PodPlacementInvalid

FieldPath: TypeAlias = tuple[str | int, ...]
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES: Final = ("Honor", "Ignore")
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_HEAVIEST: Final = 100
_A_TOPOLOGY: Final = "name a node label, such as kubernetes.io/hostname"
_LETTERS: Final = "use at most 63 letters, digits, - _ and ., a letter or digit first and last"


@dataclass(frozen=True, slots=True)
class PodFault:
    """One refused field, `path` below the spec.

    `text`: the server's words after the path, empty where they are not known. `mark`: the field that a
    person has to change, where that is another one.
    """

    kind: type[FieldReason]
    path: FieldPath
    text: str
    message: str
    remedy: str
    mark: FieldPath = ()

    @property
    def place(self) -> FieldPath:
        """Where a person has to look."""
        return self.mark or self.path


def placement_faults(spec: JsonObject) -> Iterator[PodFault]:
    """All of them, in the server's order."""
    affinity = mapping(spec.get("affinity"))
    for kind in ("podAffinity", "podAntiAffinity"):
        terms, base = mapping(affinity.get(kind)), ("affinity", kind)
        for index, term in mappings(terms.get(REQUIRED)):
            yield from _term(term, (*base, REQUIRED, index))
        for index, weighted in mappings(terms.get(PREFERRED)):
            at: FieldPath = (*base, PREFERRED, index)
            yield from weight_faults(weighted, at)
            yield from _term(mapping(weighted.get("podAffinityTerm")), (*at, "podAffinityTerm"))
    constraints = [*mappings(spec.get("topologySpreadConstraints"))]
    keys = [
        {key: text_of(spread, key) for key in ("topologyKey", "whenUnsatisfiable")}
        for _, spread in constraints
    ]
    for place, (index, constraint) in enumerate(constraints):
        yield from _constraint(constraint, ("topologySpreadConstraints", index), keys[place + 1 :])


def _term(term: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    for name in ("labelSelector", "namespaceSelector"):
        yield from _selector(mapping(term.get(name)), (*at, name))
    yield from _topology_key(term, at, named=True)


def weight_faults(weighted: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    """The weight of a preference."""
    weight = weighted.get("weight", 0)
    if isinstance(weight, int) and not 0 < weight <= _HEAVIEST:
        mark = (*at, "weight") if "weight" in weighted else at
        why = f"Invalid value: {weight}: must be in the range 1-{_HEAVIEST}"
        message, remedy = f"a weight is 1 to {_HEAVIEST}, not {weight}", f"write one of 1 to {_HEAVIEST}"
        yield placement_fault((*at, "weight"), why, message, remedy, mark)


def _topology_key(holder: JsonObject, at: FieldPath, *, named: bool) -> Iterator[PodFault]:
    """Of affinity also what is no label's name is refused (`named`), the empty one again."""
    key = text_of(holder, "topologyKey")
    path: FieldPath = (*at, "topologyKey")
    mark = path if "topologyKey" in holder else at
    if not key:
        message, remedy = "topologyKey is missing", _A_TOPOLOGY
        yield placement_fault(path, "Required value: can not be empty", message, remedy, mark)
    for fault in key_faults(key, path, mark) if named else ():
        yield fault if key else replace(fault, message="topologyKey is missing", remedy=_A_TOPOLOGY)


def _constraint(constraint: JsonObject, at: FieldPath, later: list[dict[str, str]]) -> Iterator[PodFault]:
    skew, action = constraint.get("maxSkew"), text_of(constraint, "whenUnsatisfiable")
    if skew is None or (isinstance(skew, int) and skew <= 0):
        mark = (*at, "maxSkew") if "maxSkew" in constraint else at
        why = f"Invalid value: {skew or 0}: must be greater than zero"
        yield placement_fault((*at, "maxSkew"), why, "maxSkew must be 1 or more", "set it to 1", mark)
    yield from _topology_key(constraint, at, named=False)
    if action not in _ACTIONS:
        path: FieldPath = (*at, "whenUnsatisfiable")
        mark = path if "whenUnsatisfiable" in constraint else at
        message = f"whenUnsatisfiable cannot be {action[:60]!r}"
        yield placement_fault(
            path, unsupported(action, _ACTIONS), message, nearest(action, [*_ACTIONS]), mark
        )
    if {"topologyKey": text_of(constraint, "topologyKey"), "whenUnsatisfiable": action} in later:
        pair = "{topologyKey, whenUnsatisfiable}"
        why = f'Duplicate value: "{{{text_of(constraint, "topologyKey")}, {action}}}"'
        message = "two constraints have the same topologyKey"
        yield placement_fault((*at, pair), why, message, "keep one of them", (*at, "topologyKey"))
    domains = constraint.get("minDomains")
    if isinstance(domains, int):
        path = (*at, "minDomains")
        if domains <= 0:
            why, message = "must be greater than zero", "minDomains must be 1 or more"
            yield placement_fault(
                path, f"Invalid value: {domains}: {why}", message, "set it to 1, or leave it out"
            )
        if action != "DoNotSchedule":
            why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            message = "minDomains needs whenUnsatisfiable: DoNotSchedule"
            yield placement_fault(path, f"Invalid value: {domains}: {why}", message, "leave it out")
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = text_of(constraint, name)
        if constraint.get(name) is not None and policy not in _POLICIES:
            message = f"{name} cannot be {policy[:60]!r}"
            wrong = unsupported(policy, _POLICIES)
            yield placement_fault((*at, name), wrong, message, nearest(policy, [*_POLICIES]))
    yield from _selector(mapping(constraint.get("labelSelector")), (*at, "labelSelector"))


def _selector(selector: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    yield from label_faults(mapping(selector.get("matchLabels")), (*at, "matchLabels"))
    for index, requirement in mappings(selector.get("matchExpressions")):
        yield from _requirement(requirement, (*at, "matchExpressions", index))


def label_faults(labels: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    """Labels, which the server does not tell apart."""
    for key, value in sorted(labels.items()):
        yield from key_faults(key, at, (*at, key))
        if isinstance(value, str):
            yield from value_faults(value, at, (*at, key))


def key_faults(key: str, path: FieldPath, mark: FieldPath = ()) -> Iterator[PodFault]:
    """What is no key of a label."""
    for why in wrong_in_key(key):
        message = f"{key[:100]!r} is not a valid label key"
        yield placement_fault(
            path, f"Invalid value: {json.dumps(key)}: {why}", message, "write domain/name", mark
        )


def value_faults(value: str, path: FieldPath, mark: FieldPath = ()) -> Iterator[PodFault]:
    """What is no value of a label."""
    for why in wrong_in_value(value):
        message = f"{value[:80]!r} is not a valid label value"
        yield placement_fault(path, f"Invalid value: {json.dumps(value)}: {why}", message, _LETTERS, mark)


def _requirement(requirement: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    yield from operator_faults(requirement, at, _OPERATORS)
    mark = (*at, "key") if "key" in requirement else at
    yield from key_faults(text_of(requirement, "key"), (*at, "key"), mark)
    for index, value in texts(requirement.get("values")):
        yield from value_faults(value, (*at, "values", index))


def operator_faults(requirement: JsonObject, at: FieldPath, operators: tuple[str, ...]) -> Iterator[PodFault]:
    """An operator that is none of those, or values that do not go with it."""
    operator, operands = text_of(requirement, "operator"), requirement.get("values")
    values = operands if isinstance(operands, list) else []
    if operator not in operators:
        mark = (*at, "operator") if "operator" in requirement else at
        why = f"Invalid value: {json.dumps(operator)}: not a valid selector operator"
        message = f"unknown operator {operator[:60]}" if operator else "operator is missing"
        yield placement_fault((*at, "operator"), why, message, nearest(operator, [*operators]), mark)
    elif operator in ("In", "NotIn") and not values:
        why = "Required value: must be specified when `operator` is 'In' or 'NotIn'"
        yield placement_fault(
            (*at, "values"), why, f"{operator} takes values", "give some, or use Exists", at
        )
    elif operator in ("Exists", "DoesNotExist") and values:
        why = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        message, remedy = f"{operator} takes no values", "use In, or remove them"
        yield placement_fault((*at, "values"), why, message, remedy)
    elif operator in ("Gt", "Lt") and len(values) != 1:
        why = "Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"
        message = f"{operator} takes one value, not {len(values)}"
        yield placement_fault((*at, "values"), why, message, "give one", (*at, "values") if values else at)


def placement_fault(path: FieldPath, text: str, message: str, remedy: str, mark: FieldPath = ()) -> PodFault:
    """A field that says where a pod may run, and that is refused."""
    return PodFault(PodPlacementInvalid, path, text, message, remedy, mark)


def unsupported(value: str, choices: tuple[str, ...]) -> str:
    """The server's words for a value that is none of a fixed set."""
    listed = ", ".join(f'"{choice}"' for choice in choices)
    return f"Unsupported value: {json.dumps(value)}: supported values: {listed}"


def mapping(value: JsonValue) -> JsonObject:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: JsonValue) -> Iterator[tuple[int, JsonObject]]:
    """The mappings of a list, each with its index."""
    for index, element in enumerate(value if isinstance(value, list) else []):
        if isinstance(element, dict):
            yield index, element


def texts(value: JsonValue) -> Iterator[tuple[int, str]]:
    """The texts of a list, each with its index."""
    for index, element in enumerate(value if isinstance(value, list) else []):
        if isinstance(element, str):
            yield index, element


def text_of(holder: JsonObject, key: str) -> str:
    """The text under a key, empty where there is none."""
    value = holder.get(key)
    return value if isinstance(value, str) else ""
