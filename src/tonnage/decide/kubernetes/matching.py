"""Selectors and tolerations: what matches what.

Source: k8s.io/component-helpers/scheduling/corev1, apimachinery labels; kube-scheduler 1.35.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Protocol, TypeVar

from tonnage.model.kubernetes.cluster import Node, Pod, PodTerm
from tonnage.model.kubernetes.name_words import wrong_in_value
from tonnage.model.kubernetes.selectors import Labels, LabelSelector, NodeSelectorTerm, Requirement

_INT64: Final = re.compile(r"[+-]?[0-9]{1,63}")
_LARGEST: Final = 2**63
NO_INTEGER: Final = "for 'Gt', 'Lt' operators, the value must be an integer"


class Required(Protocol):
    """A `Requirement`, or the same of an object of the API."""

    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def values(self) -> Sequence[str]: ...


class Tainted(Protocol):
    """A `Taint`, or the same of an object of the API."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class Tolerated(Tainted, Protocol):
    """A `Toleration`, or the same of an object of the API."""

    @property
    def operator(self) -> str: ...


T = TypeVar("T", bound=Tainted)


def requirement_holds(requirement: Required, labels: Labels) -> bool:
    """Whether labels meet a requirement; NotIn and DoesNotExist hold where the key is absent."""
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
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def selector_matches(selector: LabelSelector | None, labels: Labels) -> bool:
    """Whether a label selector matches; None matches nothing, an empty one everything."""
    return selector is not None and all(requirement_holds(r, labels) for r in selector.requirements)


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether a node meets every requirement of a term; an empty term matches nothing."""
    if not term.expressions and not term.fields:
        return False
    return not failing_requirements(term, node)


def failing_requirements(term: NodeSelectorTerm, node: Node) -> tuple[Requirement, ...]:
    """The requirements of a term that a node does not meet. One that cannot be read no node meets."""
    fields = {"metadata.name": node.name}
    return tuple(
        [r for r in term.expressions if not (is_readable(r) and requirement_holds(r, node.labels))]
        + [r for r in term.fields if not _field_holds(r, fields)]
    )


def is_readable(requirement: Requirement) -> bool:
    """Whether the scheduler reads a requirement on a node's labels: with values that labels can have.

    >>> is_readable(Requirement("disks", "Gt", ("4",))), is_readable(Requirement("disks", "Gt", ("-1",)))
    (True, False)
    """
    return not wrong_values(requirement.operator, requirement.values)


@lru_cache(maxsize=1024)
def wrong_values(operator: str, values: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """The values of a requirement that cannot be read: the place of each and the scheduler's words on it.

    Source: apimachinery 0.35, labels.NewRequirement.
    """
    problems: list[tuple[int, str]] = []
    if operator in ("Gt", "Lt"):
        problems += ((place, NO_INTEGER) for place, value in enumerate(values) if _int64(value) is None)
    for place, value in enumerate(values):
        if why := "; ".join(wrong_in_value(value)):
            problems.append((place, why))
    return tuple(problems)


def node_is_selected(pod: Pod, node: Node) -> bool:
    """Whether a node meets the pod's nodeSelector and its required node affinity."""
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    terms = pod.affinity.node
    return terms is None or any(term_matches(term, node) for term in terms)


def tolerates(toleration: Tolerated, taint: Tainted) -> bool:
    """Whether one toleration covers a taint. Gt and Lt are behind a gate that is off: they never match."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def untolerated(
    taints: Iterable[T], tolerations: Iterable[Tolerated], effects: tuple[str, ...]
) -> tuple[T, ...]:
    """The taints with one of `effects` that no toleration covers, in the node's order."""
    all_tolerations = tuple(tolerations)
    return tuple(
        t for t in taints if t.effect in effects and not any(tolerates(g, t) for g in all_tolerations)
    )


def pod_term_matches(
    term: PodTerm, owner: Pod, candidate: Pod, namespace_labels: Labels, *, overlooks: bool = False
) -> bool:
    """Whether a term of `owner` selects `candidate`; `namespace_labels` are those of its namespace.

    `overlooks`: as of a pod that is placed by a release that overlooks namespaces (see `SchedulerRelease`).
    """
    named = term.namespaces or (() if term.namespace_selector is not None else (owner.namespace,))
    in_scope = (
        candidate.namespace in named
        or selector_matches(term.namespace_selector, namespace_labels)
        or (overlooks and selector_matches(term.namespace_selector, {}))
    )
    return in_scope and selector_matches(term.selector, candidate.labels)


def _compares(requirement: Required, value: str | None) -> bool:
    if value is None or len(requirement.values) != 1:
        return False
    have, operand = _int64(value), _int64(requirement.values[0])
    if have is None or operand is None:
        return False
    return have > operand if requirement.operator == "Gt" else have < operand


def _int64(text: str) -> int | None:
    if not _INT64.fullmatch(text):
        return None
    number = int(text)
    return number if -_LARGEST <= number < _LARGEST else None


def _field_holds(requirement: Requirement, fields: Labels) -> bool:
    if len(requirement.values) != 1 or requirement.operator not in ("In", "NotIn"):
        return False
    equal = fields.get(requirement.key, "") == requirement.values[0]
    return equal if requirement.operator == "In" else not equal
