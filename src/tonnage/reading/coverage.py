"""Which objects of a cluster a snapshot holds: all of a kind, those of one namespace, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tonnage.model.kubernetes.cluster import Snapshot

BEYOND_ITS_NAMESPACE: Final = frozenset({"Pod", "PodDisruptionBudget", "ResourceClaim"})
"""Kinds of which the other namespaces' objects bear on a placement."""
OF_CLAIMS: Final = frozenset({"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"})
"""Kinds that a server may have at an older version alone, so that none at this one says nothing."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a reading of a cluster came to.

    `scopes`: kind -> the one namespace that was read. `forbidden`: what the server refused to list, as a
    whole or beyond its scope. `unserved`: kinds of claims whose API the server does not have at this version.
    """

    read: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    scopes: Mapping[str, str] = field(default_factory=dict)
    forbidden: frozenset[str] = frozenset()
    unserved: frozenset[str] = frozenset()


def with_unlisted(snapshot: Snapshot) -> Snapshot:
    """The snapshot of objects that somebody listed: where it has no node, or no pod, nobody listed them.

    Every cluster has nodes and pods.
    """
    objects = {"Node": snapshot.nodes, "Pod": snapshot.pods}
    unlisted = frozenset(kind for kind in objects if not objects[kind]) - snapshot.complete
    return replace(snapshot, missing=snapshot.missing | unlisted)


def with_coverage(snapshot: Snapshot, coverage: Coverage) -> Snapshot:
    """The snapshot, so that what was not read is never taken for what does not exist."""
    partial = frozenset(coverage.scopes)
    return replace(
        snapshot,
        missing=coverage.missing | (partial & BEYOND_ITS_NAMESPACE),
        complete=coverage.read - coverage.missing - partial,
        scopes=coverage.scopes,
        forbidden=coverage.forbidden,
        unserved=coverage.unserved,
    )
