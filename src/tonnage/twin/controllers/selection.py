"""Which objects a label selector takes, and which nodes a pod template may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tonnage.model.json import JsonObject
from tonnage.wire.objects import (
    Affinity,
    LabelRequirement,
    LabelSelector,
    NodeSelectorTerm,
    Taint,
    Toleration,
)

Labels = Mapping[str, str]


def selects(selector: LabelSelector, labels: Labels) -> bool:
    """Whether a workload's selector takes an object with these labels; an empty selector takes nothing.

    >>> selects(LabelSelector(match_labels={"app": "a"}), {"app": "a", "tier": "x"})
    True
    """
    if not selector.match_labels and not selector.match_expressions:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        holds(requirement, labels) for requirement in selector.match_expressions
    )


def takes(selector: JsonObject, labels: Labels) -> bool:
    """As `selects`, for a selector as it is written; an empty one takes everything.

    >>> takes({}, {"app": "a"}), takes({"matchLabels": {"app": "b"}}, {"app": "a"})
    (True, False)
    """
    read = msgspec.convert(selector, LabelSelector)
    return selects(read, labels) or not (read.match_labels or read.match_expressions)


def holds(requirement: LabelRequirement, labels: Labels) -> bool:
    """Whether one requirement holds. An unknown operator or a number that is none never holds."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, requirement.values)
        case _:
            return False


def _compares(operator: str, value: str | None, bounds: list[str]) -> bool:
    try:
        have, bound = int(value or ""), int(bounds[0])
    except (ValueError, IndexError):
        return False
    return have > bound if operator == "Gt" else have < bound


def node_matches(
    name: str, labels: Labels, node_selector: Mapping[str, str], affinity: Affinity | None
) -> bool:
    """Whether a node satisfies a pod's nodeSelector and required node affinity (terms are alternatives)."""
    if any(labels.get(key) != value for key, value in node_selector.items()):
        return False
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    if required is None:
        return True
    return any(_term_matches(term, name, labels) for term in required.node_selector_terms)


def _term_matches(term: NodeSelectorTerm, name: str, labels: Labels) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(holds(requirement, labels) for requirement in term.match_expressions) and all(
        holds(requirement, {"metadata.name": name}) for requirement in term.match_fields
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint: no key with Exists covers every key, no effect every effect."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def untolerated(
    taints: Iterable[Taint], tolerations: Iterable[Toleration], effects: tuple[str, ...]
) -> list[Taint]:
    """Taints of these effects that no toleration covers."""
    known = list(tolerations)
    return [
        taint
        for taint in taints
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in known)
    ]
