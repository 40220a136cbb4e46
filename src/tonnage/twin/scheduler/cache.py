"""cache.Cache: the cluster as the scheduler was told of it, with its own decisions (assumed pods)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tonnage.decide.kubernetes.claims.allocator import Allocator
from tonnage.decide.kubernetes.versions import SchedulerRelease
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.loop.informer import Key
from tonnage.model.kubernetes.cluster import Node, Pod, Snapshot
from tonnage.twin.scheduler.columns import SchedulerColumns


@dataclass(frozen=True, slots=True)
class _Decided:
    """A decision about the pod with this uid that its object does not show yet."""

    uid: str
    node: str = ""
    nominated: str | None = None


class SchedulerCache:
    """Nodes and pods as model values. A node's sums are kept between cycles until its pods change."""

    def __init__(self, profile: SchedulerRelease, columns: SchedulerColumns | None = None) -> None:
        self._profile = profile
        self._columns = columns or SchedulerColumns()
        self._placed: Key | None = None
        self._nodes: dict[str, Node] = {}
        self._stored: dict[Key, Pod] = {}
        self._decided: dict[Key, _Decided] = {}
        self._pods: dict[Key, Pod] = {}
        self._by_node: dict[str, dict[Key, Pod]] = {}
        self._views: dict[str, NodeView] = {}
        self._nominated: dict[Key, Pod] = {}

    def set_node(self, name: str, node: Node | None) -> Node | None:
        """Note a node, or that it is gone; as what it was known before."""
        before = self._nodes.pop(name, None)
        self._views.pop(name, None)
        if node is not None:
            self._nodes[name] = node
        if node != before:
            self._columns.forget()
        return before

    def changed(self) -> None:
        """Something around nodes and pods is not as it was."""
        self._columns.forget()

    def place(self, pod: Pod, surroundings: Callable[[], Snapshot]) -> str | None:
        """The best node, where the pod counts from now on; None when the engine must be asked instead."""
        if self._nominated:
            return None
        node = self._columns.place(pod, len(self._nodes), lambda: self.view(surroundings()))
        if node is not None:
            self._placed = pod.key
            self.assume(pod, node)
            self._placed = None
        return node

    def set_pod(self, key: Key, pod: Pod | None) -> None:
        """Note a pod as the server has it; a decision that it now shows, or that it refutes, is dropped."""
        decided = self._decided.get(key)
        if decided is not None and (pod is None or _settled(decided, pod)):
            del self._decided[key]
        if pod is None:
            self._stored.pop(key, None)
        else:
            self._stored[key] = pod
        self._place(key)

    def assume(self, pod: Pod, node: str) -> None:
        """Count the pod on a node from now on, until the server says otherwise or `forget`."""
        self._decide(pod, _Decided(pod.uid, node=node))

    def nominate(self, pod: Pod, node: str) -> None:
        """Take it that the node is being cleared for the pod; empty: no node is."""
        self._decide(pod, _Decided(pod.uid, nominated=node))

    def forget(self, key: Key) -> None:
        """A decision came to nothing."""
        self._decided.pop(key, None)
        self._place(key)

    def pod(self, key: Key) -> Pod | None:
        """The pod with what was decided about it, or None."""
        return self._pods.get(key)

    def _latest_pod(self, key: Key) -> Pod | None:
        pod, decided = self._stored.get(key), self._decided.get(key)
        if pod is None or decided is None:
            return pod
        if decided.node:
            return replace(pod, node_name=decided.node)
        status = replace(pod.status, nominated_node=decided.nominated or "")
        return replace(pod, status=status)

    def stored(self, key: Key) -> Pod | None:
        """The pod as the server has it, or None."""
        return self._stored.get(key)

    def nominated_to(self, node: str) -> Iterable[Pod]:
        """Pods that wait for a node to be cleared for them."""
        return [pod for pod in self._nominated.values() if pod.status.nominated_node == node]

    def view(self, surroundings: Snapshot, allocator: Allocator | None = None) -> ClusterView:
        """The cluster as the engine looks at it; `surroundings` has what is neither node nor pod."""
        nodes: dict[str, NodeView] = {}
        for name in sorted(self._nodes):
            view = self._views.get(name)
            if view is None:
                bare = NodeView(self._nodes[name], by_pod=self._profile.resizes_by_pod)
                view = bare.plus(self._by_node.get(name, {}).values())
                self._views[name] = view
            nodes[name] = view
        nominated: dict[str, tuple[Pod, ...]] = {}
        for pod in self._nominated.values():
            nominated[pod.status.nominated_node] = (*nominated.get(pod.status.nominated_node, ()), pod)
        whole = ClusterView(nodes, nominated, surroundings, self._profile)
        return whole if allocator is None else replace(whole, allocator=allocator)

    def _decide(self, pod: Pod, decided: _Decided) -> None:
        self._decided[pod.key] = decided
        self._place(pod.key)

    def _place(self, key: Key) -> None:
        """Put the pod where it belongs by what is known and decided now."""
        before, after = self._pods.pop(key, None), self._latest_pod(key)
        if after is not None:
            self._pods[key] = after
        self._note(key, before, after)
        if before is not None and before.node_name:
            self._by_node.get(before.node_name, {}).pop(key, None)
            self._views.pop(before.node_name, None)
        self._nominated.pop(key, None)
        if after is None or after.finished:
            return
        if after.node_name:
            self._by_node.setdefault(after.node_name, {})[key] = after
            self._views.pop(after.node_name, None)
        elif after.status.nominated_node:
            self._nominated[key] = after

    def _note(self, key: Key, before: Pod | None, after: Pod | None) -> None:
        """Keep the columns in step."""
        left = before is not None and before.node_name and not before.finished
        here = after is not None and after.node_name and not after.finished
        if after is not None and here and not left:
            if key != self._placed:
                self._columns.come(after, after.node_name)
        elif left and (before is None or after is None or not here or not _weigh_alike(before, after)):
            self._columns.forget()


def _weigh_alike(pod: Pod, other: Pod) -> bool:
    """Whether two states of a pod differ in nothing but what of the status does not count on its node."""
    weights = [(s.terminating, s.resized, s.cannot_resize) for s in (pod.status, other.status)]
    return weights[0] == weights[1] and replace(pod, status=other.status) == other


def _settled(decided: _Decided, pod: Pod) -> bool:
    if pod.uid != decided.uid or pod.node_name or pod.finished:
        return True
    return not decided.node and pod.status.nominated_node == (decided.nominated or "")
