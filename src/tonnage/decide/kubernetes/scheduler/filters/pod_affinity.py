"""InterPodAffinity: where other pods must be, must not be, or do not want this one to be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from tonnage.decide.kubernetes.matching import pod_term_matches
from tonnage.decide.kubernetes.scheduler.refusal import Check, PluginRefusal
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Pod, PodTerm
from tonnage.model.kubernetes.selectors import Labels
from tonnage.model.reasons.pod.scheduling import PodAffinityMismatch, PodAntiAffinity, PodAntiAffinityOfOthers

NAME: Final = "InterPodAffinity"
AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI: Final = "node(s) didn't match pod anti-affinity rules"
ANTI_OF_OTHERS: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

_Pairs: TypeAlias = dict[tuple[str, str], Pod]
"""By (topology key, value): one pod that is there, as the witness."""


def prepare(pod: Pod, view: ClusterView) -> Check | None:
    """Refuse by the pod's own terms first, then by those of the pods that run."""
    terms = pod.affinity.pods
    if not (terms or pod.affinity.anti or view.has_anti_affinity):
        return None
    attracting, avoided, shunned = _pairs(pod, view)
    if not terms and not avoided and not shunned:
        return None
    if not (terms or pod.affinity.anti or _is_shunned_at_first(pod, view)):
        return None
    first_of_its_kind = not attracting and all(_matches(term, pod, pod, view, own=True) for term in terms)

    def check(node: NodeView) -> PluginRefusal | None:
        labels = node.node.labels
        if not all(term.topology_key in labels for term in terms):
            return _missing(node.name, terms)
        met = all((term.topology_key, labels[term.topology_key]) in attracting for term in terms)
        if not met and not first_of_its_kind:
            return _missing(node.name, terms)
        for pair, text, kind in (
            (avoided, ANTI, PodAntiAffinity),
            (shunned, ANTI_OF_OTHERS, PodAntiAffinityOfOthers),
        ):
            witness = _witness(pair, labels)
            if witness is not None:
                return _occupied(node.name, text, kind, *witness)
        return None

    return check


def _pairs(pod: Pod, view: ClusterView) -> tuple[_Pairs, _Pairs, _Pairs]:
    """Where pods are that the pod wants all at once, avoids, or that shun it."""
    attracting: _Pairs = {}
    avoided: _Pairs = {}
    shunned: _Pairs = {}
    own = pod.affinity
    for node in view.nodes.values():
        labels = node.node.labels
        for other in node.pods if own.pods or own.anti else node.anti_affinity_pods:
            if own.pods and all(_matches(term, pod, other, view, own=True) for term in own.pods):
                _note(attracting, own.pods, labels, other)
            if own.anti:
                keeping = (t for t in own.anti if _matches(t, pod, other, view, own=True))
                _note(avoided, keeping, labels, other)
            if other.affinity.anti:
                terms = (t for t in other.affinity.anti if _matches(t, other, pod, view))
                _note(shunned, terms, labels, other)
    return attracting, avoided, shunned


def _is_shunned_at_first(pod: Pod, view: ClusterView) -> bool:
    """Whether pods shun it that are there not only in thought: else the scheduler does not ask the plugin."""
    return any(
        term.topology_key in node.node.labels and _matches(term, other, pod, view)
        for node in view.nodes.values()
        for other in (node.origin or node).anti_affinity_pods
        for term in other.affinity.anti
    )


def _matches(term: PodTerm, owner: Pod, candidate: Pod, view: ClusterView, *, own: bool = False) -> bool:
    overlooks = own and view.profile.overlooks_namespaces
    there = view.namespace_labels(candidate.namespace)
    return pod_term_matches(term, owner, candidate, there, overlooks=overlooks)


def _note(pairs: _Pairs, terms: Iterable[PodTerm], labels: Labels, witness: Pod) -> None:
    for term in terms:
        if term.topology_key in labels:
            pairs.setdefault((term.topology_key, labels[term.topology_key]), witness)


def _witness(pairs: _Pairs, labels: Labels) -> tuple[str, Pod] | None:
    for (key, value), pod in pairs.items():
        if labels.get(key) == value:
            return key, pod
    return None


def _missing(node: str, terms: tuple[PodTerm, ...]) -> PluginRefusal:
    keys = ", ".join(sorted({term.topology_key for term in terms}))
    selectors = "; ".join(dict.fromkeys(_selected(term) for term in terms))
    reason = PodAffinityMismatch(
        subject=f"Node {node}",
        message=f"the pods that this one must be with ({selectors}) are not in the node's topology ({keys})",
        remedy="start those pods first, or relax podAffinity",
        source=NAME,
        topology_keys=keys,
        selectors=selectors,
    )
    return PluginRefusal(NAME, (AFFINITY,), unresolvable=True, reasons=(reason,))


def _selected(term: PodTerm) -> str:
    """The pods that a term means."""
    if term.selector is None:
        return "none at all"
    return ", ".join(map(str, term.selector.requirements)) or "any"


def _occupied(
    node: str, text: str, kind: type[PodAntiAffinity | PodAntiAffinityOfOthers], key: str, witness: Pod
) -> PluginRefusal:
    name = f"{witness.namespace}/{witness.name}"
    message = (
        f"pod {name} is in the same {key}, which podAntiAffinity forbids"
        if kind is PodAntiAffinity
        else f"pod {name} in the same {key} forbids this pod by its podAntiAffinity"
    )
    reason = kind(
        subject=f"Node {node}",
        message=message,
        remedy="wait for that pod to end, relax podAntiAffinity, or add nodes",
        source=NAME,
        topology_key=key,
        pod=name,
    )
    return PluginRefusal(NAME, (text,), unresolvable=False, reasons=(reason,))
