"""Parts of wire objects as model values: quantities, times, selectors, affinity. Nothing here raises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import (
    Affinity,
    PodTerm,
    PreferredTerm,
    SpreadConstraint,
    WeightedPodTerm,
)
from tonnage.model.kubernetes.quantity import integer_value, milli_value
from tonnage.model.kubernetes.selectors import LabelSelector, NodeSelectorTerm, Requirement
from tonnage.model.kubernetes.timestamps import moment_of
from tonnage.wire import objects as w

_LARGEST: Final = 2**63 - 1
Quantities = Mapping[str, str | int | float]


@dataclass(slots=True)
class ReadingProblems:
    """Problems found while reading one object."""

    problems: list[Problem] = field(default_factory=list)

    def add(self, where: str, problem: str, remedy: str = "") -> None:
        """Note that something at a field path cannot be used."""
        self.problems.append(Problem(problem, where=where, remedy=remedy))


def amounts(quantities: Quantities, where: str, notes: ReadingProblems) -> dict[str, int]:
    """Quantities in the scheduler's units; one that cannot be read is noted and left out."""
    read: dict[str, int] = {}
    for name, quantity in quantities.items():
        try:
            value = milli_value(str(quantity)) if name == "cpu" else integer_value(str(quantity))
        except ValueError as error:
            notes.add(f"{where}[{name}]", f"{str(quantity)[:64]!r} is not a quantity", str(error))
            continue
        if not -_LARGEST <= value <= _LARGEST:
            notes.add(f"{where}[{name}]", f"{str(quantity)[:64]!r} is too large")
            continue
        read[name] = value
    return read


def moment(text: str | None) -> datetime | None:
    """A timestamp, or None when there is none or it cannot be read; always aware."""
    if not text:
        return None
    try:
        read = moment_of(text)
    except ValueError:
        return None
    return read if read.tzinfo is not None else None


def label_selector(selector: w.LabelSelector | None) -> LabelSelector | None:
    """A label selector; None stays None and matches nothing."""
    if selector is None:
        return None
    labels = [Requirement(key, "In", (value,)) for key, value in sorted(selector.match_labels.items())]
    return LabelSelector((*labels, *requirements(selector.match_expressions)))


def requirements(expressions: Iterable[w.LabelRequirement]) -> tuple[Requirement, ...]:
    """Requirements in their order."""
    return tuple(Requirement(e.key, e.operator, tuple(e.values)) for e in expressions)


def selector_of(value: object) -> LabelSelector | None:
    """A label selector out of plain JSON; what has the wrong shape matches nothing."""
    if not isinstance(value, dict):
        return None
    labels, expressions = value.get("matchLabels"), value.get("matchExpressions")
    requirements = [
        Requirement(str(key), "In", (str(text),))
        for key, text in sorted(labels.items() if isinstance(labels, dict) else ())
    ]
    for expression in _list(expressions):
        if isinstance(expression, dict):
            values = tuple(str(v) for v in _list(expression.get("values")))
            requirements.append(
                Requirement(str(expression.get("key", "")), str(expression.get("operator", "")), values)
            )
    return LabelSelector(tuple(requirements))


def affinity_of(affinity: w.Affinity | None, labels: Mapping[str, str]) -> Affinity:
    """All of `spec.affinity`; `labels` are the pod's own, which matchLabelKeys refer to."""
    if affinity is None:
        return Affinity()
    node = affinity.node_affinity or w.NodeAffinity()
    own, anti = affinity.pod_affinity or {}, affinity.pod_anti_affinity or {}
    return Affinity(
        node=tuple(_node_term(t) for t in node.required.node_selector_terms) if node.required else None,
        node_preferred=tuple(PreferredTerm(p.weight, _node_term(p.preference)) for p in node.preferred),
        pods=_required_terms(own, labels),
        anti=_required_terms(anti, labels),
        pods_preferred=(*_preferred_terms(own, labels, 1), *_preferred_terms(anti, labels, -1)),
    )


def spread_of(
    constraints: Iterable[dict[str, Any]], labels: Mapping[str, str]
) -> tuple[SpreadConstraint, ...]:
    """Topology spread constraints; matchLabelKeys become part of the selector."""
    return tuple(
        SpreadConstraint(
            topology_key=str(c.get("topologyKey", "")),
            max_skew=_whole(c.get("maxSkew"), 1),
            hard=c.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
            selector=_with_keys(selector_of(c.get("labelSelector")), c, labels),
            min_domains=_whole(c.get("minDomains"), 1),
            honour_affinity=c.get("nodeAffinityPolicy", "Honor") != "Ignore",
            honour_taints=c.get("nodeTaintsPolicy", "Ignore") == "Honor",
        )
        for c in constraints
    )


def refused_placement(spec: w.PodSpec) -> tuple[str, ...]:
    """Spreading and affinity between pods that no server keeps: what they mean is not guessed."""
    affinity = spec.affinity or w.Affinity()
    if not (spec.topology_spread_constraints or affinity.pod_affinity or affinity.pod_anti_affinity):
        return ()
    from tonnage.documents.pods.fields import written_path
    from tonnage.documents.pods.placement import placement_faults

    written: JsonObject = {
        "affinity": {"podAffinity": affinity.pod_affinity, "podAntiAffinity": affinity.pod_anti_affinity},
        "topologySpreadConstraints": [*spec.topology_spread_constraints],
    }
    faults = placement_faults(written)
    return tuple(f"unreadable spec{written_path(fault.path)}: {fault.message}" for fault in faults)


def _node_term(term: w.NodeSelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(requirements(term.match_expressions), requirements(term.match_fields))


def _required_terms(part: dict[str, Any], labels: Mapping[str, str]) -> tuple[PodTerm, ...]:
    return tuple(
        _pod_term(term, labels)
        for term in _list(part.get("requiredDuringSchedulingIgnoredDuringExecution"))
        if isinstance(term, dict)
    )


def _preferred_terms(
    part: dict[str, Any], labels: Mapping[str, str], sign: int
) -> tuple[WeightedPodTerm, ...]:
    return tuple(
        WeightedPodTerm(sign * _whole(term.get("weight"), 0), _pod_term(term["podAffinityTerm"], labels))
        for term in _list(part.get("preferredDuringSchedulingIgnoredDuringExecution"))
        if isinstance(term, dict) and isinstance(term.get("podAffinityTerm"), dict)
    )


def _pod_term(term: dict[str, Any], labels: Mapping[str, str]) -> PodTerm:
    return PodTerm(
        topology_key=str(term.get("topologyKey", "")),
        selector=_with_keys(selector_of(term.get("labelSelector")), term, labels),
        namespaces=tuple(str(name) for name in _list(term.get("namespaces"))),
        namespace_selector=selector_of(term.get("namespaceSelector")),
    )


def _with_keys(
    selector: LabelSelector | None, term: dict[str, Any], labels: Mapping[str, str]
) -> LabelSelector | None:
    """The selector with matchLabelKeys and mismatchLabelKeys filled in from the pod's labels."""
    if selector is None:
        return None
    added = tuple(
        Requirement(str(key), operator, (labels[key],))
        for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in _list(term.get(name))
        if isinstance(key, str) and key in labels
    )
    return LabelSelector(selector.requirements + added) if added else selector


def _whole(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
