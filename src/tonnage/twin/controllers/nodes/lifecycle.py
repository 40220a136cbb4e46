"""nodelifecycle.Controller: silent nodes become Unknown, conditions become taints."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tonnage.loop.events import recorder_over
from tonnage.loop.informer import Delta, Informer, Informers, Key, following, key_of
from tonnage.loop.status_writes import patch_as_seen, tell_of_pod
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.model.kubernetes.well_known import LEASE_NAMESPACE
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.twin.controllers.nodes.health import (
    GRACE_S,
    eviction_key,
    is_evicting,
    lacking_metadata,
    ready_status,
    silent_conditions,
    wanted_taints,
)
from tonnage.twin.controllers.nodes.zones import NodeZones
from tonnage.wire.kinds import LEASE, NODE, POD
from tonnage.wire.objects import Condition, Node, ObjectReference, Pod
from tonnage.wire.reports import Lease


class NodeLifecycleController:
    """Watches over heartbeats, by when they were seen here, never by the nodes' own clocks."""

    def __init__(
        self,
        api: KubernetesApi,
        clock: Clock,
        informers: Informers,
        *,
        grace_s: float = GRACE_S,
        vouched: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        """Nodes that are `vouched` for need no heartbeats; nobody is told of their coming."""
        self._vouched = vouched
        self._api = api
        self._clock = clock
        self._grace_s = grace_s
        self._events = recorder_over(api, clock, "node-controller")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._nodes = informers.of(NODE)
        self._nodes.subscribe(self._node_changed)
        self._leases = Informer(api, LEASE, clock, namespace=LEASE_NAMESPACE)
        self._leases.subscribe(self._lease_changed)
        self._pods = informers.of(POD)
        self._pods.add_index("node", lambda pod: [pod.spec.node_name])
        self._heartbeats_s: dict[str, float] = {}
        self._registered: set[str] = set()
        self._zones = NodeZones()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with following(self._nodes, self._leases, self._pods) as group:
            group.create_task(work(self._queue, self._reconcile, workers=4))

    def _node_changed(self, delta: Delta[Node]) -> None:
        node = delta.after or delta.before
        if node is None:
            return
        name = node.metadata.name
        if delta.after is None:
            self._heartbeats_s.pop(name, None)
        elif delta.before is None or _heartbeats(delta.after) - _heartbeats(delta.before):
            self._heartbeats_s[name] = self._clock.monotonic()
        self._queue.add(key_of(node))
        self._watch_zones(delta)

    def _watch_zones(self, delta: Delta[Node]) -> None:
        """Look again at nodes that are not ready when they may lose their pods at another pace."""
        before, after, now_s = delta.before, delta.after, self._clock.monotonic()
        was_lost = self._zones.is_lost
        if after is None:
            changed = before is not None and self._zones.forget(before.metadata.name, now_s)
        elif before is None or _counts(before) != _counts(after):
            changed = self._zones.take_in(after, now_s)
        else:
            return
        if was_lost and not self._zones.is_lost:
            # It was not the nodes that were silent.
            self._heartbeats_s = dict.fromkeys(self._heartbeats_s, now_s)
        for node in self._nodes if changed else ():
            if eviction_key(node):
                self._queue.add(key_of(node))

    def _lease_changed(self, delta: Delta[Lease]) -> None:
        if delta.after is None or delta.after.metadata.name not in self._heartbeats_s:
            return
        if delta.before is None or delta.before.spec.renew_time != delta.after.spec.renew_time:
            self._heartbeats_s[delta.after.metadata.name] = self._clock.monotonic()

    async def _reconcile(self, key: Key) -> float | None:
        name = key[1]
        node = self._nodes.get(name)
        if node is None:
            if name in self._registered:
                self._registered.discard(name)
                reference = ObjectReference(kind=NODE.kind, name=name, uid=name)
                text = f"Node {name} event: Removing Node {name} from Controller"
                await self._events.emit(reference, "Normal", "RemovingNode", text)
            return None
        if name not in self._registered:
            self._registered.add(name)
            if not self._vouched(name):
                text = f"Node {name} event: Registered Node {name} in Controller"
                await self._events.emit(_reference_to(node), "Normal", "RegisteredNode", text)
        silent_s = self._clock.monotonic() - self._heartbeats_s.get(name, self._clock.monotonic())
        if self._vouched(name):
            silent_s = 0.0
        is_silent = silent_s >= self._grace_s
        if is_silent:
            node = await self._mark_silent(node)
        node = await self._complete(node)
        turn_s = await self._taint(node)
        if is_silent:  # a kubelet that says itself that it is not ready speaks for its pods, too
            await self._mark_pods_not_ready(node)
        left_s = 0.0 if self._vouched(name) else max(self._grace_s - silent_s, 0.0)
        return min((wait for wait in (turn_s, left_s) if wait), default=None)

    async def _mark_silent(self, node: Node) -> Node:
        conditions = silent_conditions(node, self._clock.now())
        if conditions == node.status.conditions:
            return node
        body: list[JsonValue] = msgspec.to_builtins(conditions)
        marked = await self._api.patch(
            NODE,
            node.metadata.name,
            {"metadata": {"resourceVersion": node.metadata.resource_version}, "status": {"conditions": body}},
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )
        text = f"Node {node.metadata.name} status is now: NodeNotReady"
        await self._events.emit(_reference_to(marked), "Normal", "NodeNotReady", text)
        return marked

    async def _complete(self, node: Node) -> Node:
        """Give a node the labels and the annotation that every node has."""
        lacking = lacking_metadata(node)
        if not lacking:
            return node
        return await patch_as_seen(self._api, NODE, node, {"metadata": lacking})

    async def _taint(self, node: Node) -> float:
        """Taint a node; the seconds until it may lose its pods, 0 if it does or need not."""
        evicting = is_evicting(node) and not self._zones.is_lost
        turn_s = 0.0
        if eviction_key(node) and not evicting:
            turn_s = self._zones.wait_s(node, self._clock.monotonic())
        taints = wanted_taints(node, self._clock.now(), evict=not turn_s)
        if taints != node.spec.taints:
            body: list[JsonValue] = msgspec.to_builtins(taints)
            await patch_as_seen(self._api, NODE, node, {"spec": {"taints": body or None}})
        return turn_s if turn_s != float("inf") else 0.0

    async def _mark_pods_not_ready(self, node: Node) -> None:
        for pod in self._pods.by_index("node", node.metadata.name):
            ready = next((c for c in pod.status.conditions if c.type == "Ready"), None)
            if ready is None or ready.status != "True":
                continue
            await self._mark_pod(pod, ready)

    async def _mark_pod(self, pod: Pod, ready: Condition) -> None:
        condition: JsonObject = {
            "type": ready.type,
            "status": "False",
            "lastTransitionTime": timestamp(self._clock.now()),
        }
        await tell_of_pod(self._api, pod, {"conditions": [condition]})
        await self._events.emit(pod, "Warning", "NodeNotReady", "Node is not ready")


def _counts(node: Node) -> tuple[str, dict[str, str]]:
    """What of a node may count for its zone."""
    return ready_status(node), node.metadata.labels


def _heartbeats(node: Node) -> set[tuple[str, str, str | None]]:
    """What a kubelet writes; our own verdicts (Unknown) are no heartbeat."""
    heartbeats = (condition for condition in node.status.conditions if condition.status != "Unknown")
    return {(condition.type, condition.status, condition.last_heartbeat_time) for condition in heartbeats}


def _reference_to(node: Node) -> ObjectReference:
    """The node as Events name it, in whatever version."""
    meta = node.metadata
    return ObjectReference(api_version=node.api_version, kind=NODE.kind, name=meta.name, uid=meta.uid)
