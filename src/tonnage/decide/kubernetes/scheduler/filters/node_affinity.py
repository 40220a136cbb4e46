"""NodeAffinity: nodeSelector and required node affinity against a node's labels and name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tonnage.decide.kubernetes.matching import (
    failing_requirements,
    is_readable,
    node_is_selected,
    term_matches,
)
from tonnage.decide.kubernetes.scheduler.refusal import Check, PluginRefusal
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Node, Pod
from tonnage.model.kubernetes.selectors import NodeSelectorTerm, Requirement
from tonnage.model.reasons.facts import FailingRequirement
from tonnage.model.reasons.pod.scheduling import NodeAffinityMismatch, NodeNotPinned
from tonnage.model.reasons.reason import Reason

NAME: Final = "NodeAffinity"
TEXT: Final = "node(s) didn't match Pod's node affinity/selector"
CONFLICT: Final = "pod affinity terms conflict"
ENFORCED: Final = "node(s) didn't match scheduler-enforced node affinity"
NARROWED: Final = f"node(s) didn't satisfy plugin(s) [{NAME}]"


def prepare(pod: Pod, view: ClusterView) -> Check | None:
    """Refuse nodes that the profile's affinity leaves out, or the pod's nodeSelector or required affinity."""
    added = view.settings(pod).affinity.required
    if not pod.node_selector and pod.affinity.node is None and added is None:
        return None

    def check(view: NodeView) -> PluginRefusal | None:
        if added is not None and not any(term_matches(term, view.node) for term in added):
            return PluginRefusal(NAME, (ENFORCED,), unresolvable=True, reasons=(_enforced(view.node, added),))
        if node_is_selected(pod, view.node):
            return None
        return PluginRefusal(NAME, (TEXT,), unresolvable=True, reasons=(_reason(pod, view.node),))

    return check


def pinned_names(pod: Pod) -> frozenset[str] | None:
    """Names that the pod pins itself to, when every affinity term does; an empty set is a conflict."""
    terms = pod.affinity.node
    if terms is None:
        return None
    names: frozenset[str] = frozenset()
    for term in terms:
        pins = [r for r in term.fields if r.key == "metadata.name" and r.operator == "In"]
        if not pins:
            return None
        names |= frozenset.intersection(*(frozenset(pin.values) for pin in pins))
    return names if terms else None


def narrowed(node: str, names: Iterable[str]) -> PluginRefusal:
    """The refusal of a node that the pod's pins leave out."""
    pinned = sorted(names)
    reason = NodeNotPinned(
        subject=f"Node {node}",
        message=f"the pod's affinity pins it to {', '.join(pinned)}",
        source=NAME,
        wanted=tuple(pinned),
    )
    return PluginRefusal(NAME, (NARROWED,), unresolvable=True, reasons=(reason,))


def _enforced(node: Node, added: tuple[NodeSelectorTerm, ...]) -> Reason:
    failing = min((failing_requirements(term, node) for term in added), key=len, default=())
    return NodeAffinityMismatch(
        subject=f"Node {node.name}",
        message="; ".join(_mismatch(r, node) for r in failing).replace(
            "wants", "the scheduler's profile wants"
        )
        or "a term of the scheduler's profile is empty, and matches nothing",
        remedy="name a scheduler without this addedAffinity in schedulerName, or label the node",
        source=NAME,
        failing=tuple(_fact(r, node) for r in failing),
        terms=len(added),
    )


def _reason(pod: Pod, node: Node) -> Reason:
    selector = [
        Requirement(key, "In", (value,))
        for key, value in sorted(pod.node_selector.items())
        if node.labels.get(key) != value
    ]
    terms = [failing_requirements(term, node) for term in pod.affinity.node or ()]
    closest: tuple[Requirement, ...] = ()
    if terms and all(terms):
        closest = min(terms, key=len)
    failing = (*selector, *closest)
    return NodeAffinityMismatch(
        subject=f"Node {node.name}",
        message="; ".join(_mismatch(r, node) for r in failing)
        or "an affinity term is empty, and matches nothing",
        remedy="widen the selector or affinity, or label the node",
        source=NAME,
        failing=tuple(_fact(r, node) for r in failing),
        terms=len(terms),
    )


def _fact(requirement: Requirement, node: Node) -> FailingRequirement:
    return FailingRequirement(
        requirement.key, requirement.operator, requirement.values, _actual(requirement, node)
    )


def _mismatch(requirement: Requirement, node: Node) -> str:
    if requirement.key != "metadata.name" and not is_readable(requirement):
        return f"{requirement} matches no node: a label cannot have that value"
    actual = _actual(requirement, node)
    has = f"the node has {actual}" if actual is not None else "the node lacks that label"
    return f"wants {requirement}, {has}"


def _actual(requirement: Requirement, node: Node) -> str | None:
    return node.name if requirement.key == "metadata.name" else node.labels.get(requirement.key)
