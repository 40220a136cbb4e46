"""One change to a manifest or to the cluster, as a value to try on the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tonnage.decide.kubernetes.view import ClusterView
from tonnage.model.kubernetes.cluster import Pod


@dataclass(frozen=True, slots=True)
class RemedyEdit:
    """One change. `cost` orders: words of the manifest before changes of the cluster, those before waiting.

    Two edits with the same `key` are the same. `on_pod` and `on_view` return the changed pod and cluster.
    """

    key: str
    action: str
    cost: int
    waits_for: str = ""
    """What must end, and where, when the change is but time."""
    shape: str = ""
    """Changes of one shape can be made one: they differ only in the values that they accept."""
    on_pod: Callable[[Pod], Pod] = lambda pod: pod
    on_view: Callable[[ClusterView], ClusterView] = lambda view: view
