"""Spread constraints and affinity between pods that the API server refuses.

Source: k8s.io/kubernetes pkg/apis/core/validation, k8s.io/apimachinery pkg/apis/meta/v1/validation, 1.35.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from tonnage.documents.nearest import nearest
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.names import is_label_key
from tonnage.model.verdict import Code

FieldPath: TypeAlias = tuple[str | int, ...]
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES: Final = ("Honor", "Ignore")
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_VALUE: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_LETTERS: Final = "letters, digits, - _ and . alone, 63 at most, the first and last a letter or digit"


@dataclass(frozen=True, slots=True)
class PodFault:
    """One refused field, `path` below the spec.

    `text`: the server's words after the path, empty where they are not known. `mark`: the field that a
    person has to change, where that is another one.
    """

    code: Code
    path: FieldPath
    text: str
    told: str
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
        for index, term in mappings(terms.get(_REQUIRED)):
            yield from _term(term, (*base, _REQUIRED, index))
        for index, weighted in mappings(terms.get(_PREFERRED)):
            at: FieldPath = (*base, _PREFERRED, index, "podAffinityTerm")
            yield from _term(mapping(weighted.get("podAffinityTerm")), at)
    for index, constraint in mappings(spec.get("topologySpreadConstraints")):
        yield from _constraint(constraint, ("topologySpreadConstraints", index))


def _term(term: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    for name in ("labelSelector", "namespaceSelector"):
        yield from _selector(mapping(term.get(name)), (*at, name))
    yield from _topology_key(term, at)


def _topology_key(holder: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    if not holder.get("topologyKey"):
        mark = (*at, "topologyKey") if "topologyKey" in holder else at
        told, remedy = "there is no topologyKey", "name a node label, such as kubernetes.io/hostname"
        yield _fault((*at, "topologyKey"), "Required value: can not be empty", told, remedy, mark)


def _constraint(constraint: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    skew, action = constraint.get("maxSkew"), text_of(constraint, "whenUnsatisfiable")
    if skew is None or (isinstance(skew, int) and skew <= 0):
        mark = (*at, "maxSkew") if "maxSkew" in constraint else at
        why = f"Invalid value: {skew or 0}: must be greater than zero"
        yield _fault((*at, "maxSkew"), why, "maxSkew must be 1 or more", "set it to 1", mark)
    yield from _topology_key(constraint, at)
    if action not in _ACTIONS:
        path: FieldPath = (*at, "whenUnsatisfiable")
        mark = path if "whenUnsatisfiable" in constraint else at
        told = f"whenUnsatisfiable cannot be {action[:60]!r}"
        yield _fault(path, unsupported(action, _ACTIONS), told, nearest(action, [*_ACTIONS]), mark)
    domains = constraint.get("minDomains")
    if isinstance(domains, int):
        path = (*at, "minDomains")
        if domains <= 0:
            why, told = "must be greater than zero", "minDomains must be 1 or more"
            yield _fault(path, f"Invalid value: {domains}: {why}", told, "set it to 1, or leave it out")
        if action != "DoNotSchedule":
            why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            told = "minDomains goes with whenUnsatisfiable: DoNotSchedule alone"
            yield _fault(path, f"Invalid value: {domains}: {why}", told, "leave it out")
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = text_of(constraint, name)
        if constraint.get(name) is not None and policy not in _POLICIES:
            told = f"{name} cannot be {policy[:60]!r}"
            wrong = unsupported(policy, _POLICIES)
            yield _fault((*at, name), wrong, told, nearest(policy, [*_POLICIES]))
    yield from _selector(mapping(constraint.get("labelSelector")), (*at, "labelSelector"))


def _selector(selector: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    labels: FieldPath = (*at, "matchLabels")
    for key, value in sorted(mapping(selector.get("matchLabels")).items()):
        if not is_label_key(key):
            yield _fault(
                labels, "", f"{key[:100]!r} is no key of a label", "write domain/name", (*labels, key)
            )
        if isinstance(value, str) and not _VALUE.fullmatch(value):
            yield _no_value(labels, value, (*labels, key))
    for index, requirement in mappings(selector.get("matchExpressions")):
        yield from _requirement(requirement, (*at, "matchExpressions", index))


def _requirement(requirement: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    operator, key, given = (
        text_of(requirement, "operator"),
        text_of(requirement, "key"),
        requirement.get("values"),
    )
    values = given if isinstance(given, list) else []
    if operator in ("In", "NotIn") and not values:
        why = "Required value: must be specified when `operator` is 'In' or 'NotIn'"
        yield _fault((*at, "values"), why, f"{operator} takes values", "give some, or use Exists", at)
    elif operator in ("Exists", "DoesNotExist") and values:
        why = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield _fault((*at, "values"), why, f"{operator} takes no values", "use In, or remove them")
    elif operator not in _OPERATORS:
        mark = (*at, "operator") if "operator" in requirement else at
        why = f"Invalid value: {json.dumps(operator)}: not a valid selector operator"
        told, remedy = f"no operator {operator[:60]!r}", nearest(operator, [*_OPERATORS])
        yield _fault((*at, "operator"), why, told, remedy, mark)
    if not is_label_key(key):
        mark = (*at, "key") if "key" in requirement else at
        told = f"{key[:100]!r} is no key of a label"
        yield _fault((*at, "key"), "", told, "write domain/name", mark)
    for index, value in enumerate(values):
        if isinstance(value, str) and not _VALUE.fullmatch(value):
            yield _no_value((*at, "values", index), value, ())


def _fault(path: FieldPath, text: str, told: str, remedy: str, mark: FieldPath = ()) -> PodFault:
    return PodFault(Code.PLACEMENT_INVALID, path, text, told, remedy, mark)


def _no_value(path: FieldPath, value: str, mark: FieldPath) -> PodFault:
    return _fault(path, "", f"no label has the value {value[:80]!r}", _LETTERS, mark)


def unsupported(value: str, known: tuple[str, ...]) -> str:
    """The server's words for a value that is none of a fixed set."""
    listed = ", ".join(f'"{one}"' for one in known)
    return f"Unsupported value: {json.dumps(value)}: supported values: {listed}"


def mapping(value: JsonValue) -> JsonObject:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: JsonValue) -> Iterator[tuple[int, JsonObject]]:
    """The mappings of a list, each with its index."""
    for index, one in enumerate(value if isinstance(value, list) else []):
        if isinstance(one, dict):
            yield index, one


def text_of(holder: JsonObject, key: str) -> str:
    """The text under a key, empty where there is none."""
    value = holder.get(key)
    return value if isinstance(value, str) else ""
