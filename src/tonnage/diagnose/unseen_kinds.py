"""Kinds of which nothing was seen: what they would tell is unknown, and not nothing."""

from __future__ import annotations

from typing import Final

from tonnage.model.kubernetes.cluster import Snapshot

_MISSING_WORDS: Final = {
    "Node": "capacity, allocatable, labels and conditions of nodes are unknown",
    "Pod": "what is allocated, and to whom, is unknown",
    "NodeGPUStatus": "devices, their health and holders are unknown",
}


def unseen_kinds(snapshot: Snapshot) -> tuple[str, ...]:
    """Those of Node, Pod and NodeGPUStatus that were not read in full, or that a list of objects has none of.

    Every cluster has nodes and pods; one without agents has no NodeGPUStatus.
    """
    objects = {"Node": snapshot.nodes, "Pod": snapshot.pods}
    return tuple(
        kind
        for kind in _MISSING_WORDS
        if kind in snapshot.missing
        or kind in snapshot.scopes
        or (not snapshot.complete and kind in objects and not objects[kind])
    )


def unseen_words(kind: str, namespace: str = "") -> str:
    """What is not known without a kind; `namespace` is the only one of which it was read."""
    extent = f"{kind} was read only in namespace {namespace}" if namespace else f"no {kind} was seen"
    return f"{extent}: {_MISSING_WORDS[kind]}"
