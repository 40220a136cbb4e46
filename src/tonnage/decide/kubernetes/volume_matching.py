"""Volumes that stand ready for claims that wait for a node.

Source: k8s.io/component-helpers 0.35 storage/volume (FindMatchingVolume, CheckNodeAffinity), kube-scheduler
1.35 volumebinding/binder.go (findMatchingVolumes).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tonnage.decide.kubernetes.matching import selector_matches, term_matches
from tonnage.model.kubernetes.cluster import Node
from tonnage.model.kubernetes.selectors import NodeSelectorTerm
from tonnage.model.kubernetes.volumes import Volume, VolumeClaim


def reaches(terms: tuple[NodeSelectorTerm, ...] | None, node: Node) -> bool:
    """Whether a volume of these nodes can be had on a node. Its labels alone count: any name will do."""
    if terms is None:
        return True
    by_labels = (term.expressions for term in terms if term.expressions or term.fields)
    return any(not part or term_matches(NodeSelectorTerm(part), node) for part in by_labels)


def matched(
    claims: Iterable[VolumeClaim], volumes: Mapping[str, Iterable[Volume]], node: Node
) -> dict[VolumeClaim, Volume]:
    """The claims that find a volume on a node, with it; the smallest chooses first. `volumes` by class."""
    used_names: set[str] = set()
    met: dict[VolumeClaim, Volume] = {}
    for claim in sorted(claims, key=lambda waiting_claim: waiting_claim.size):
        volume = _smallest(
            claim, (v for v in volumes.get(claim.storage_class, ()) if v.name not in used_names), node
        )
        if volume is not None:
            used_names.add(volume.name)
            met[claim] = volume
    return met


def _smallest(claim: VolumeClaim, volumes: Iterable[Volume], node: Node) -> Volume | None:
    best: Volume | None = None
    for volume in volumes:
        own = volume.is_for(claim)
        if (volume.claim and not own) or volume.terminating or not _is_of_the_kind(volume, claim):
            continue
        if own:
            return volume if reaches(volume.nodes, node) else None
        chosen = claim.selector is None or selector_matches(claim.selector, volume.labels)
        fits = volume.available and chosen and claim.modes <= volume.modes and reaches(volume.nodes, node)
        if fits and (best is None or volume.size < best.size):
            best = volume
    return best


def _is_of_the_kind(volume: Volume, claim: VolumeClaim) -> bool:
    alike = volume.block is claim.block and volume.attributes_class == claim.attributes_class
    return alike and volume.size >= claim.size
