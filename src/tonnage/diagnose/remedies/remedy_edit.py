"""One change to a manifest or to the cluster, as a value to try on the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tonnage.decide.kubernetes.view import ClusterView
from tonnage.model.kubernetes.cluster import Pod


@dataclass(frozen=True, slots=True)
class RemedyEdit:
    """One change.

    `cost` orders: mistakes of the manifest (1 to 5), repairs of the cluster (6 to 10), what the pod gives up
    (from 12 on), then waiting (30).

    Two edits with the same `key` are the same. `on_pod` and `on_view` return the changed pod and cluster.
    """

    key: str
    action: str
    cost: int
    waits_for: str = ""
    """What must end, and where, when the change is but time."""
    endless: bool = False
    """Whether that does not end by itself: waiting alone brings nothing."""
    shape: str = ""
    """Changes of one shape can be made one: they differ only in the values that they accept."""
    asks: tuple[str, int] | None = None
    """The resource of which it makes the pod ask for less, and for how much."""
    on_pod: Callable[[Pod], Pod] = lambda pod: pod
    on_view: Callable[[ClusterView], ClusterView] = lambda view: view
