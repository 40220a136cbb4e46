"""InterPodAffinity: preferred terms of the pod and of the pods that run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.decide.kubernetes.matching import pod_term_matches
from tonnage.decide.kubernetes.scheduler.scoring import HIGHEST, Feasible
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.model.kubernetes.cluster import Pod, PodTerm

NAME: Final = "InterPodAffinity"
WEIGHT: Final = 2


def rate(pod: Pod, feasible: Feasible, view: ClusterView) -> Mapping[str, int] | None:
    """Sum the weights over each node's topology; skipped when no term matches any pod anywhere."""
    settings = view.settings(pod)
    if settings.overlooks_preferred and not pod.affinity.pods_preferred:
        return None
    worth: dict[tuple[str, str], int] = {}
    for node in view.nodes.values():
        labels = node.node.labels
        for other in node.pods:
            for weight, term in _terms(pod, other, view):
                if term.topology_key in labels:
                    pair = term.topology_key, labels[term.topology_key]
                    worth[pair] = worth.get(pair, 0) + weight
    if not worth:
        return None
    raw = {
        name: sum(w for (key, value), w in worth.items() if node.node.labels.get(key) == value)
        for name, node in feasible.items()
    }
    least, span = min(raw.values()), max(raw.values()) - min(raw.values())
    return {name: int(HIGHEST * ((value - least) / span)) if span else 0 for name, value in raw.items()}


def _terms(pod: Pod, other: Pod, view: ClusterView) -> Iterator[tuple[int, PodTerm]]:
    """The weighted terms that hold between the pod and one that runs, from either side."""
    here, there = view.namespace_labels(pod.namespace), view.namespace_labels(other.namespace)
    for own in pod.affinity.pods_preferred:
        overlooks = view.profile.overlooks_namespaces
        if pod_term_matches(own.term, pod, other, there, overlooks=overlooks):
            yield own.weight, own.term
    for term in other.affinity.pods:
        if pod_term_matches(term, other, pod, here):
            yield view.settings(pod).required_weight, term
    for preferred in other.affinity.pods_preferred:
        if pod_term_matches(preferred.term, other, pod, here):
            yield preferred.weight, preferred.term
