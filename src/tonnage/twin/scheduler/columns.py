"""Large clusters as the scheduler's loop sees them: columns that go on from pod to pod while pods only come.

What else happens (a node changes, a pod ends, something around them) makes them anew, at the next pod. They
decide only where they know all that bears on a pod, and only who gets in; every refusal is the engine's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tonnage.decide.kubernetes.view import ClusterView, as_kept
from tonnage.model.kubernetes.cluster import Pod

if TYPE_CHECKING:
    from tonnage.decide.kubernetes.scheduler.fleet.fleet import Fleet

LEAST_NODES: Final = 100
"""With fewer the engine, which asks one after the other, is as fast."""
_MOST_SHAPES: Final = 48


class SchedulerColumns:
    """The columns of one scheduler."""

    def __init__(self, least_nodes: int = LEAST_NODES) -> None:
        self._least_nodes = least_nodes
        self._fleet: Fleet | None = None

    def forget(self) -> None:
        """Something other than the coming of a pod has happened."""
        self._fleet = None

    def come(self, pod: Pod, node: str) -> None:
        """A pod has come to a node that others chose."""
        if self._fleet is None:
            return
        if node in self._fleet.columns.row_of:
            self._fleet.put(pod, node)
        else:
            self._fleet = None

    def place(self, pod: Pod, nodes: int, view: Callable[[], ClusterView]) -> str | None:
        """The best node for the pod, which is counted there; None when the engine has to be asked."""
        if nodes < self._least_nodes or pod.claims or pod.volumes or pod.disks or pod.unmodelled or pod.gates:
            return None
        from tonnage.decide.kubernetes.scheduler.fleet.fleet import conflicts, fleet_of

        if self._fleet is None:
            self._fleet = fleet_of(view())
        fleet = self._fleet
        profile = fleet.view.profile
        if not fleet.view.snapshot.namespaces or conflicts(pod):
            return None
        fleet.forget(_MOST_SHAPES)
        return fleet.place(as_kept(pod, profile))
