"""Which objects a label selector takes, and which nodes a pod template may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from tonnage.decide.kubernetes.matching import requirement_holds
from tonnage.model.json import JsonObject
from tonnage.wire.objects import Affinity, LabelSelector, NodeSelectorTerm

Labels = Mapping[str, str]


def selects(selector: LabelSelector, labels: Labels) -> bool:
    """Whether a workload's selector takes an object with these labels; an empty selector takes nothing.

    >>> selects(LabelSelector(match_labels={"app": "a"}), {"app": "a", "tier": "x"})
    True
    """
    if not selector.match_labels and not selector.match_expressions:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        requirement_holds(requirement, labels) for requirement in selector.match_expressions
    )


class _Spec(Protocol):
    @property
    def selector(self) -> LabelSelector: ...


class Selecting(Protocol):
    """A workload that selects what it owns."""

    @property
    def spec(self) -> _Spec: ...


def owner_selects(owner: Selecting, labels: Labels) -> bool:
    """Whether a workload's own selector takes an object with these labels."""
    return selects(owner.spec.selector, labels)


def takes(selector: JsonObject, labels: Labels) -> bool:
    """As `selects`, for a selector as it is written; an empty one takes everything.

    >>> takes({}, {"app": "a"}), takes({"matchLabels": {"app": "b"}}, {"app": "a"})
    (True, False)
    """
    read = msgspec.convert(selector, LabelSelector)
    return selects(read, labels) or not (read.match_labels or read.match_expressions)


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
    return all(requirement_holds(requirement, labels) for requirement in term.match_expressions) and all(
        requirement_holds(requirement, {"metadata.name": name}) for requirement in term.match_fields
    )
