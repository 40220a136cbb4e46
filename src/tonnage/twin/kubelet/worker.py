"""One pod on its node, from admission to its end.

Source: Kubernetes 1.36, pkg/kubelet/pod_workers.go and pkg/kubelet/kuberuntime; texts of 1.35.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tonnage.adapters.events import reference_to
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.model.errors import ApiError, ClusterError
from tonnage.twin.kubelet.addresses import PodAddresses
from tonnage.twin.kubelet.admission import AdmissionFailure, is_sidecar
from tonnage.twin.kubelet.backoff import go_duration
from tonnage.twin.kubelet.pod_status import POD_INITIALIZING, PodProgress, Slot, phase_of, status_of
from tonnage.twin.kubelet.runtime import ContainerRuntime, RunningContainer
from tonnage.twin.kubelet.starter import ContainerStarter
from tonnage.twin.kubelet.writers import Outbox, StatusWriter
from tonnage.wire import kinds
from tonnage.wire.objects import Container, Pod
from tonnage.wire.timestamps import timestamp

_LOG: Final = logging.getLogger(__name__)
_DEFAULT_GRACE_S: Final = 30
_RETRY_S: Final = 1.0


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


class PodWorker:
    """Runs one pod. `admit` decides about it, `released` is called once it will never run again."""

    def __init__(
        self,
        pod: Pod,
        node: NodeServices,
        admit: Callable[[Pod], Any],
        released: Callable[[str], Any],
    ) -> None:
        self.pod = pod
        self._node = node
        self._admit = admit
        self._released = released
        self._ending = asyncio.Event()
        self._gone = asyncio.Event()
        self.finished = False
        start = pod.status.start_time or timestamp(node.clock.now())
        self.progress = PodProgress(
            [Slot(c, waiting=POD_INITIALIZING) for c in pod.spec.init_containers],
            [Slot(c) for c in pod.spec.containers],
            start,
            node.host_ip,
            initialized=not pod.spec.init_containers,
        )
        self.progress.conditions = {
            condition.type: {
                "status": condition.status,
                "lastTransitionTime": condition.last_transition_time,
                "reason": condition.reason or None,
                "message": condition.message or None,
            }
            for condition in pod.status.conditions
        }

    def update(self, pod: Pod) -> None:
        """The object changed: labels and such, or it is to end."""
        self.pod = pod
        if pod.metadata.deletion_timestamp is not None:
            self._ending.set()

    def vanish(self) -> None:
        """The object is gone from the API server: end at once."""
        self._gone.set()
        self._ending.set()

    async def run(self) -> None:
        """The pod's whole life on this node; ends when the object is gone."""
        if self.pod.metadata.deletion_timestamp is not None:
            self._ending.set()
        life = asyncio.create_task(self._live(), name=f"pod {self.pod.metadata.name}")
        ending = asyncio.create_task(self._ending.wait())
        try:
            await asyncio.wait({life, ending}, return_when=asyncio.FIRST_COMPLETED)
            if life.done() and not life.cancelled() and life.exception() is not None:
                life.result()
            await ending
        finally:
            life.cancel()
            ending.cancel()
            await asyncio.gather(life, ending, return_exceptions=True)
        await self._end()

    # Living

    async def _live(self) -> None:
        if self.pod.status.phase in {"Succeeded", "Failed"}:
            await self._finish()
            return
        if self._node.runtime.containers(self.pod.metadata.uid):
            self._adopt()
        else:
            failure = await self._admit(self.pod)
            if failure is not None:
                await self._refuse(failure)
                return
            self._publish()
        self._open_sandbox()
        if not await self._initialize():
            self._publish()
            await self._finish()
            return
        self.progress.initialized = True
        self._publish()
        async with asyncio.TaskGroup() as group:
            sidecars = [
                group.create_task(self._keep(slot))
                for slot in self.progress.init
                if is_sidecar(slot.container)
            ]
            mains = [group.create_task(self._keep(slot)) for slot in self.progress.main]
            await asyncio.wait(mains)
            for task in sidecars:
                task.cancel()
        await self._stop_all(self._grace())
        self._publish()
        await self._finish()

    def _adopt(self) -> None:
        """Take over containers that a kubelet before this one started."""
        for slot in (*self.progress.init, *self.progress.main):
            mine = [
                container
                for container in self._node.runtime.containers(self.pod.metadata.uid)
                if container.name == slot.container.name
            ]
            if mine:
                slot.current = mine[-1]
                slot.restarts = mine[-1].config.attempt
                slot.last = mine[-2] if len(mine) > 1 else None
        if any(slot.current is not None for slot in self.progress.main):
            self.progress.initialized = True

    def _open_sandbox(self) -> None:
        if self.pod.spec.host_network:
            self.progress.pod_ip = self._node.host_ip
        else:
            address = self._node.addresses.take(self.pod.metadata.uid)
            self.progress.pod_ip = address or ""
            if address is None:
                self._tell(
                    "Warning",
                    "FailedCreatePodSandBox",
                    "failed to allocate for range 0: no IP addresses available",
                )
        self.progress.sandbox = True

    async def _initialize(self) -> bool:
        """Run the init containers in order; False when one failed for good."""
        for slot in self.progress.init:
            if is_sidecar(slot.container):
                if slot.current is None:
                    await self._start(slot)
                continue
            if slot.exit_code == 0 or self.progress.initialized:
                continue
            await self._keep(slot)
            if slot.exit_code != 0:
                return False
        return True

    async def _keep(self, slot: Slot) -> None:
        """Start the container, again and again as the restart policy says, until it has ended for good."""
        while True:
            if slot.current is None:
                await self._start(slot)
            current = slot.current
            if current is None:
                continue
            self._publish()
            await current.exited.wait()
            self._publish()
            if not self._restarts(slot, current):
                return
            await self._back_off(slot, current)

    def _restarts(self, slot: Slot, ended: RunningContainer) -> bool:
        if is_sidecar(slot.container):
            return True
        policy = self.pod.spec.restart_policy
        if policy == "Always" and slot not in self.progress.init:
            return True
        return policy != "Never" and ended.exit_code != 0

    async def _back_off(self, slot: Slot, ended: RunningContainer) -> None:
        clock = self._node.clock
        backoff = self._node.starter.backoff(self.pod.metadata.uid, slot.container.name)
        ago_s = (clock.now() - (ended.finished_at or clock.now())).total_seconds()
        now = clock.monotonic()
        wait_s = backoff.remaining(now - ago_s, now)
        slot.last, slot.current = ended, None
        if wait_s > 0:
            meta = self.pod.metadata
            pod = f"{meta.name}_{meta.namespace}({meta.uid})"
            name = slot.container.name
            slot.waiting = (
                "CrashLoopBackOff",
                f"back-off {go_duration(backoff.delay_s)} restarting failed container={name} pod={pod}",
            )
            self._tell(
                "Warning",
                "BackOff",
                f"Back-off restarting failed container {name} in pod {pod}",
                slot.container,
            )
            self._publish()
            await clock.sleep(wait_s)
        backoff.raise_at(clock.monotonic())
        slot.restarts = ended.config.attempt + 1

    async def _start(self, slot: Slot) -> None:
        slot.current = await self._node.starter.start(self.pod, slot, self.progress.pod_ip, self._publish)

    # Ending

    async def _refuse(self, failure: AdmissionFailure) -> None:
        self._tell("Warning", failure.reason, failure.message)
        self._node.statuses.put(
            self.pod,
            {
                "phase": "Failed",
                "reason": failure.reason,
                "message": f"Pod was rejected: {failure.message}",
                "startTime": self.progress.start_time,
            },
        )
        await self._finish()

    async def _finish(self) -> None:
        self.finished = True
        await self._released(self.pod.metadata.uid)

    async def _end(self) -> None:
        if not self.finished:
            self.progress.ended = True
            await self._stop_all(0 if self._gone.is_set() else self._grace())
            if not self._gone.is_set():
                self._publish()
            await self._finish()
        if not self._gone.is_set():
            await self._node.statuses.flush(self.pod.metadata.uid)
            await self._delete()
        await self._gone.wait()
        self._node.statuses.forget(self.pod.metadata.uid)
        self._node.starter.forget(self.pod.metadata.uid)
        self._node.addresses.free(self.pod.metadata.uid)
        self._node.runtime.remove_pod(self.pod.metadata.uid)

    def _grace(self) -> float:
        asked = self.pod.metadata.deletion_grace_period_seconds
        if asked is None:
            asked = self.pod.spec.termination_grace_period_seconds
        return float(_DEFAULT_GRACE_S if asked is None else asked)

    async def _stop_all(self, grace_s: float) -> None:
        """Stop what runs: containers first, then sidecars in reverse order."""
        mains = [slot for slot in (*self.progress.main, *self._plain_init()) if slot.running]
        await asyncio.gather(*(self._stop(slot, grace_s) for slot in mains))
        for slot in reversed(self.progress.init):
            if slot.running:
                await self._stop(slot, grace_s)

    def _plain_init(self) -> list[Slot]:
        return [slot for slot in self.progress.init if not is_sidecar(slot.container)]

    async def _stop(self, slot: Slot, grace_s: float) -> None:
        if slot.current is None:
            return
        self._tell("Normal", "Killing", f"Stopping container {slot.container.name}", slot.container)
        await self._node.runtime.stop(slot.current, grace_s)

    async def _delete(self) -> None:
        """Take the object away, unless it is another one by now."""
        meta = self.pod.metadata
        while not self._gone.is_set():
            try:
                await self._node.api.delete(
                    kinds.POD, meta.name, namespace=meta.namespace, grace_period_s=0, uid=meta.uid
                )
            except ApiError as error:
                if error.code in {404, 409}:
                    return
                _LOG.warning(
                    "pod not deleted, will retry: pod=%s/%s error=%s", meta.namespace, meta.name, error
                )
            except ClusterError as error:
                _LOG.warning(
                    "pod not deleted, will retry: pod=%s/%s error=%s", meta.namespace, meta.name, error
                )
            else:
                return
            await self._node.clock.sleep(_RETRY_S)

    # Telling

    def _publish(self) -> None:
        status = status_of(self.pod, self.progress, timestamp(self._node.clock.now()))
        self._node.statuses.put(self.pod, status)

    def _tell(self, event_type: str, reason: str, message: str, container: Container | None = None) -> None:
        self._node.events.tell(
            reference_to(self.pod, "" if container is None else field_path(self.pod, container)),
            event_type,
            reason,
            message,
        )

    def slot(self, name: str) -> Slot | None:
        """The container of that name."""
        slots = (*self.progress.init, *self.progress.main)
        return next((slot for slot in slots if slot.container.name == name), None)

    @property
    def phase(self) -> str:
        """The phase that the containers add up to now."""
        return phase_of(self.pod, self.progress)


def field_path(pod: Pod, container: Container) -> str:
    """Where a container stands in its pod, as an Event names it."""
    init = any(other.name == container.name for other in pod.spec.init_containers)
    return f"spec.{'initContainers' if init else 'containers'}{{{container.name}}}"
