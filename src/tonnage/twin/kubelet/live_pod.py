"""A pod on its node, as all that works on it sees it: its object, its containers' books, and who is told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from tonnage.loop.events import reference_to
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.kubelet.addresses import PodAddresses
from tonnage.twin.kubelet.claims.manager import ClaimManager
from tonnage.twin.kubelet.containers.container_records import POD_INITIALIZING, ContainerSlot, PodProgress
from tonnage.twin.kubelet.containers.restarts import wanted_again
from tonnage.twin.kubelet.containers.runtime_port import ContainerRuntime
from tonnage.twin.kubelet.containers.starter import ContainerStarter
from tonnage.twin.kubelet.pod_status import status_of
from tonnage.twin.kubelet.status_writers import Outbox, StatusWriter
from tonnage.wire.objects import Container, Pod

_DEFAULT_GRACE_S: Final = 30
_LOST_EXIT: Final = 255
LOOPBACK_ANNOTATION: Final = "tonnage.dev/loopback-"
"""With a port of the pod behind it: the address of this machine at which that port is reached."""


@dataclass(frozen=True, slots=True)
class NodeServices:
    """What all pods of a node share."""

    node_name: str
    host_ip: str
    api: KubernetesApi
    clock: Clock
    runtime: ContainerRuntime
    starter: ContainerStarter
    addresses: PodAddresses
    statuses: StatusWriter
    events: Outbox
    claims: ClaimManager


class LivePod:
    """A pod that its kubelet looks after."""

    def __init__(self, pod: Pod, node: NodeServices) -> None:
        self.pod = pod
        self.node = node
        self._changed = asyncio.Event()
        self._ports: set[int] = set()
        self.progress = PodProgress(
            [ContainerSlot(c, "initContainers", waiting=POD_INITIALIZING) for c in pod.spec.init_containers],
            [ContainerSlot(c) for c in pod.spec.containers],
            pod.status.start_time or timestamp(node.clock.now()),
            node.host_ip,
            initialized=not pod.spec.init_containers,
            conditions={
                condition.type: {
                    "status": condition.status,
                    "lastTransitionTime": condition.last_transition_time,
                    "reason": condition.reason or None,
                    "message": condition.message or None,
                }
                for condition in pod.status.conditions
            },
        )
        self.add_ephemeral()

    @property
    def name(self) -> str:
        """The pod as the kubelet's texts name it."""
        meta = self.pod.metadata
        return f"{meta.name}_{meta.namespace}({meta.uid})"

    def slot(self, name: str) -> ContainerSlot | None:
        """The container of that name."""
        return next((slot for slot in self.progress.slots() if slot.container.name == name), None)

    def add_ephemeral(self) -> list[ContainerSlot]:
        """Books for the ephemeral containers that the pod has got since."""
        names = {slot.container.name for slot in self.progress.ephemeral}
        fresh = [c for c in self.pod.spec.ephemeral_containers if c.name not in names]
        slots = [ContainerSlot(container, "ephemeralContainers") for container in fresh]
        self.progress.ephemeral += slots
        return slots

    def adopt(self) -> bool:
        """Take over containers that a kubelet before this one started; False when there are none.

        They stay as ready as they were until they are probed.
        """
        running = self.node.runtime.containers(self.pod.metadata.uid)
        if not running:
            return False
        reported = {str(status.get("name")): status for status in self._reported_statuses()}
        for slot in self.progress.slots():
            own = [container for container in running if container.name == slot.container.name]
            if own:
                slot.current = own[-1]
                slot.restarts = own[-1].config.attempt
                slot.last = own[-2] if len(own) > 1 else None
                before = reported.get(slot.container.name, {})
                slot.probed = {
                    "Startup": bool(before.get("started")),
                    "Readiness": bool(before.get("ready")),
                }
        if any(slot.current is not None for slot in self.progress.main):
            self.progress.initialized = True
        return True

    def recall(self) -> None:
        """Count on from what the status says of containers that the node lost when it restarted itself."""
        for status in self._reported_statuses():
            slot = self.slot(str(status.get("name")))
            if slot is None or not (status.get("containerID") or status.get("lastState")):
                continue
            slot.past = _past(status, timestamp(self.node.clock.now()))
            slot.over = self._over(slot)
            slot.restarts = int(status.get("restartCount") or 0) + (not slot.over)

    def _over(self, slot: ContainerSlot) -> bool:
        """Whether what a slot had is not wanted again; init containers are where any of the others is."""
        if slot.part == "initContainers":
            return all(main.over for main in self.progress.main)
        return not wanted_again(self.pod, slot, int(slot.past.get("exitCode") or 0))

    def _reported_statuses(self) -> list[dict[str, Any]]:
        """What the status says of containers, of init containers last."""
        status = self.pod.status
        return [
            *status.container_statuses,
            *status.ephemeral_container_statuses,
            *status.init_container_statuses,
        ]

    def refresh(self, pod: Pod) -> list[ContainerSlot]:
        """The object changed. Returns the slots whose container is to start anew, with another image."""
        self.pod = pod
        now = _by_name(pod)
        changed = []
        for slot in self.progress.slots():
            before, slot.container = slot.container, now.get(slot.container.name, slot.container)
            if before.image != slot.container.image:
                changed.append(slot)
        return changed

    def grace_s(self) -> float:
        """How long its containers have to end in order."""
        seconds = self.pod.metadata.deletion_grace_period_seconds
        if seconds is None:
            seconds = self.pod.spec.termination_grace_period_seconds
        return float(_DEFAULT_GRACE_S if seconds is None else seconds)

    async def until_started(self, slot: ContainerSlot) -> None:
        """Return once the container runs and its startup probe, if it has one, has succeeded."""
        while not slot.started:
            await self._changed.wait()

    def publish(self) -> None:
        """Have the status of now written."""
        self._changed.set()
        self._changed = asyncio.Event()
        now = timestamp(self.node.clock.now())
        status = status_of(self.pod, self.progress, now)
        self.node.claims.add_health(self.pod, status)
        self.node.statuses.put(self.pod, status, self._loopback())

    def served_at(self, port: int) -> int | None:
        """The loopback port of this machine at which a port of the pod is reached; None: nobody serves it."""
        running = (slot.current for slot in self.progress.slots() if slot.current and slot.current.running)
        return next((own for current in running if (own := current.ports.own(port)) is not None), None)

    def _loopback(self) -> JsonObject:
        """Annotations that say where the pod's ports are reached; None takes one away."""
        containers = (slot.current or slot.last for slot in self.progress.slots())
        self._ports |= {port for container in containers if container for port in container.ports.ports()}
        owns = {port: self.served_at(port) for port in sorted(self._ports)}
        return {
            f"{LOOPBACK_ANNOTATION}{port}": None if own is None else f"{self.node.host_ip}:{own}"
            for port, own in owns.items()
        }

    def tell(self, event_type: str, reason: str, message: str, slot: ContainerSlot | None = None) -> None:
        """Have an Event written, about the pod or one of its containers."""
        subject = reference_to(self.pod, "" if slot is None else slot.path)
        self.node.events.tell(subject, event_type, reason, message)


def _by_name(pod: Pod) -> dict[str, Container]:
    spec = pod.spec
    return {c.name: c for c in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)}


def _past(status: dict[str, Any], now: str) -> dict[str, Any]:
    """How a container ended that a node's restart took along, as containerd says it afterwards."""
    match status.get("state"):
        case {"terminated": dict(ended)}:
            return ended
        case {"running": {"startedAt": str(started)}}:
            return {
                "exitCode": _LOST_EXIT,
                "reason": "Unknown",
                "startedAt": started,
                "finishedAt": now,
                "containerID": status.get("containerID", ""),
            }
    last = status.get("lastState") or {}
    return dict(last.get("terminated") or {})
