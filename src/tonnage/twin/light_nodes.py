"""Light nodes: a Node object each and nothing behind it; pods that come to them only say that they run.

One loop stands for all their kubelets, so that thousands cost little: no sockets, no agents, no containers. A
node's GPUs are in its status from the beginning. It has no Lease and writes no heartbeat: the node
controller, which lives in the same process, asks this loop instead.

Source: Kubernetes 1.35, pkg/kubelet (status, admission), as far as a status tells of it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from tonnage.decide.kubernetes.requests import PODS
from tonnage.loop.events import EventRecorder, recorder_over
from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.refusals import passing_over
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.twin.apiserver.in_process_client import kubelet_client
from tonnage.twin.kubelet.admission import AdmissionFailure, amounts_of, lacking, pod_amounts, rejected
from tonnage.twin.kubelet.claims.pod_claims import AGAIN_S, UNPREPARED, has_claims, unprepared
from tonnage.twin.kubelet.containers.images import full_image
from tonnage.twin.kubelet.node_status import node_body, node_conditions, node_info, without_reserved
from tonnage.twin.kubelet.pod_conditions import OWN
from tonnage.twin.machines import LightNode
from tonnage.wire import kinds
from tonnage.wire.objects import Pod

_WORKERS: Final = 16
_FIRST_ADDRESS: Final = 2


class _Occupied:
    """What pods have of one light node."""

    def __init__(self, node: LightNode) -> None:
        self.allocatable = amounts_of({**without_reserved(node.spec), **node.devices})
        self._network = ipaddress.ip_network(node.spec.pod_cidr)
        self._held: dict[str, tuple[Mapping[str, int], str]] = {}

    def holds(self, uid: str) -> bool:
        return uid in self._held

    def keep(self, pod: Pod) -> None:
        """Count a pod that runs here already."""
        self._held[pod.metadata.uid] = {**pod_amounts(pod), PODS: 1}, pod.status.pod_ip

    def take(self, pod: Pod) -> str | AdmissionFailure:
        """The pod's address here, or what the node lacks."""
        requested = pod_amounts(pod)
        used: dict[str, int] = {}
        for amounts, _ in self._held.values():
            for name, amount in amounts.items():
                used[name] = used.get(name, 0) + amount
        failure = lacking(requested, used, self.allocatable)
        if failure is not None:
            return failure
        occupied = {address for _, address in self._held.values()}
        free = (str(self._network[n]) for n in range(_FIRST_ADDRESS, self._network.num_addresses - 1))
        address = next((candidate for candidate in free if candidate not in occupied), "")
        self._held[pod.metadata.uid] = {**requested, PODS: 1}, address
        return address

    def free(self, uid: str) -> None:
        self._held.pop(uid, None)


class LightNodes:
    """All light nodes of a fleet."""

    def __init__(
        self, nodes: Iterable[LightNode], api: KubernetesApi, clock: Clock, informers: Informers
    ) -> None:
        self._api = api
        self._clock = clock
        self._nodes = {node.spec.name: node for node in nodes}
        self._occupied = {name: _Occupied(node) for name, node in self._nodes.items()}
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._recorders: dict[str, EventRecorder] = {}
        self._pods = informers.of(kinds.POD)
        self._pods.subscribe(self._pod_changed)

    @property
    def any(self) -> bool:
        """Whether there are some."""
        return bool(self._nodes)

    def vouch(self, node: str) -> bool:
        """Whether the node is one of these, which are always well."""
        return node in self._nodes

    async def run(self) -> None:
        """Make the nodes, then let pods seem to run until cancelled."""
        for node in self._nodes.values():
            await self._register(node)
        async with following(self._pods) as group:
            group.create_task(work(self._queue, self._reconcile, workers=_WORKERS))

    async def _register(self, node: LightNode) -> None:
        body = node_body(node.spec)
        capacity: JsonObject = {**node.spec.capacity, **node.devices}
        allocatable: JsonObject = {**without_reserved(node.spec), **node.devices}
        body["status"] = {
            "capacity": capacity,
            "allocatable": allocatable,
            "addresses": [
                {"type": "InternalIP", "address": node.spec.address},
                {"type": "Hostname", "address": node.spec.name},
            ],
            "nodeInfo": node_info(node.spec),
            "conditions": node_conditions(timestamp(self._clock.now()), {}),
        }
        try:
            await self._as(node.spec.name).create(kinds.NODE, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":  # an earlier life of a cluster that is kept has made it
                raise

    def _as(self, node: str) -> KubernetesApi:
        """The client of that node's kubelet."""
        return kubelet_client(self._api, node, self._nodes[node].spec.labels)

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        pod = delta.after or delta.before
        if pod is None or (occupied := self._occupied.get(pod.spec.node_name)) is None:
            return
        if delta.after is None or pod.status.phase in ("Succeeded", "Failed"):
            occupied.free(pod.metadata.uid)
        elif pod.status.phase == "Running" and not occupied.holds(pod.metadata.uid):
            occupied.keep(pod)
        if delta.after is not None:
            self._queue.add(key_of(pod))

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.get(key[1], key[0])
        if pod is None:
            return
        with passing_over(404):
            if pod.metadata.deletion_timestamp is not None:
                await self._end(pod)
            elif pod.status.phase in ("", "Pending"):
                if has_claims(pod) and not await self._prepared(pod):
                    self._queue.add_after(key, AGAIN_S)
                else:
                    await self._start(pod)

    async def _prepared(self, pod: Pod) -> bool:
        """Whether the pod may start as far as its claims go; it is told why not."""
        node = pod.spec.node_name
        why = await unprepared(self._as(node), pod)
        if not why:
            return True
        if node not in self._recorders:
            self._recorders[node] = recorder_over(self._as(node), self._clock, "kubelet", node)
        await self._recorders[node].emit(pod, "Warning", UNPREPARED, why)
        return False

    async def _start(self, pod: Pod) -> None:
        occupied = self._occupied[pod.spec.node_name]
        if occupied.holds(pod.metadata.uid):
            return
        address = occupied.take(pod)
        if isinstance(address, AdmissionFailure):
            status = rejected(pod, address, timestamp(self._clock.now()))
        else:
            node = self._nodes[pod.spec.node_name].spec
            status = _running(pod, timestamp(self._clock.now()), node.address, address)
        try:
            await self._as(pod.spec.node_name).patch(
                kinds.POD,
                pod.metadata.name,
                {"metadata": {"uid": pod.metadata.uid}, "status": status},
                namespace=pod.metadata.namespace,
                patch_type=PatchType.MERGE,  # the whole status is told
                subresource="status",
            )
        except ApiError:
            occupied.free(pod.metadata.uid)
            raise

    async def _end(self, pod: Pod) -> None:
        """As a kubelet ends a pod whose containers are gone: at once, since there are none."""
        await self._as(pod.spec.node_name).delete(
            kinds.POD,
            pod.metadata.name,
            namespace=pod.metadata.namespace,
            grace_period_s=0,
            uid=pod.metadata.uid,
        )


def _running(pod: Pod, now: str, host: str, address: str) -> JsonObject:
    """The status of a pod all of whose containers have started."""
    own = host if pod.spec.host_network else address
    conditions: list[Any] = [
        {"type": condition, "status": "True", "lastTransitionTime": now} for condition in OWN
    ]
    containers: list[Any] = [
        {
            "name": container.name,
            "image": full_image(container.image),
            "imageID": full_image(container.image),
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
            "lastState": {},
            "containerID": f"containerd://{pod.metadata.uid}-{container.name}",
            "resources": msgspec.to_builtins(container.resources),
        }
        for container in pod.spec.containers
    ]
    return {
        "phase": "Running",
        "conditions": conditions,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": own,
        "podIPs": [{"ip": own}],
        "startTime": now,
        "containerStatuses": containers,
    }
