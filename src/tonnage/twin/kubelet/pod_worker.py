"""SyncPod: one pod on its node, from admission to its end.

Source: Kubernetes 1.35, pkg/kubelet/pod_workers.go and pkg/kubelet/kuberuntime.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.kubernetes.timestamps import moment_of
from tonnage.twin.kubelet.admission import AdmissionFailure, rejected
from tonnage.twin.kubelet.claims.pod_claims import AGAIN_S, PREFIX, UNPREPARED, has_claims
from tonnage.twin.kubelet.containers.container_records import ContainerSlot
from tonnage.twin.kubelet.containers.lifecycle import keep
from tonnage.twin.kubelet.containers.runtime_port import RunningContainer
from tonnage.twin.kubelet.containers.termination import stop_all, stop_container
from tonnage.twin.kubelet.live_pod import LivePod, NodeServices
from tonnage.twin.kubelet.pod_status import phase_of
from tonnage.twin.kubelet.volumes.mounting import mounted
from tonnage.wire import kinds
from tonnage.wire.objects import Pod

_LOG: Final = logging.getLogger(__name__)
_RETRY_S: Final = 1.0
_REPORT_DELAY_S: Final = 0.1
"""How long after a start the kubelet hears of it; a genuine one takes up to a second."""
_TOO_LONG: Final = "Pod was active on the node longer than the specified deadline"


class PodWorker:
    """Runs one pod. `admit` decides about it, `released` is called once it will never run again."""

    def __init__(
        self,
        pod: Pod,
        node: NodeServices,
        admit: Callable[[Pod], Any],
        released: Callable[[str], Any],
    ) -> None:
        self.live = LivePod(pod, node)
        self._node = node
        self._admit = admit
        self._released = released
        self._ending = asyncio.Event()
        self._gone = asyncio.Event()
        self._others: set[asyncio.Task[None]] = set()
        self._limit: asyncio.Timeout | None = None
        self.finished = False

    @property
    def pod(self) -> Pod:
        """The object of now."""
        return self.live.pod

    def update(self, pod: Pod) -> None:
        """The object changed: labels, images, more containers, conditions; or it is to end."""
        allowed_s = self.pod.spec.active_deadline_seconds
        changed = self.live.refresh(pod)
        if pod.metadata.deletion_timestamp is not None:
            self._ending.set()
            return
        if self._limit is not None and pod.spec.active_deadline_seconds != allowed_s:
            self._in_background(self._deadline())
        if self.live.progress.sandbox and not self.finished:
            for slot in changed:
                self._replace(slot)
            for slot in self.live.add_ephemeral():
                self._in_background(keep(self.live, slot))
            self.live.publish()

    def _replace(self, slot: ContainerSlot) -> None:
        """A container is another one now: end it, and start it again whatever its policy."""
        if slot.running and (slot.part == "containers" or slot.sidecar):
            slot.again = True
            subject = "Init container" if slot.sidecar else "Container"
            text = f"{subject} {slot.container.name} definition changed"
            text += "" if slot.sidecar else ", will be restarted"
            self._in_background(stop_container(self.live, slot, self.live.grace_s(), text))

    def _in_background(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)

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
            for task in (life, ending, *self._others):
                task.cancel()
            await asyncio.gather(life, ending, *self._others, return_exceptions=True)
        await self._end()

    # Living

    async def _live(self) -> None:
        live = self.live
        adopted = live.adopt()
        if self.pod.status.phase in {"Succeeded", "Failed"}:
            await self._finish()
            return
        if not adopted:
            failure = await self._admit(self.pod)
            if failure is not None:
                await self._refuse(failure)
                return
            live.recall()
            live.publish()
        try:
            async with asyncio.timeout(None) as self._limit:
                self._in_background(self._deadline())
                if not adopted:
                    await mounted(live)
                await self._prepared()
                self._open_sandbox()
                for slot in live.progress.ephemeral:
                    self._in_background(keep(live, slot))
                await self._run_containers()
        except TimeoutError:
            live.tell("Normal", "DeadlineExceeded", _TOO_LONG)
            live.progress.failure = ("DeadlineExceeded", _TOO_LONG)
        self._limit = None
        await stop_all(live, live.grace_s())
        live.progress.ended = live.progress.initialized
        live.publish()
        await self._finish()

    async def _deadline(self) -> None:
        """Call time once the pod has been active for longer than it may."""
        allowed_s = self.pod.spec.active_deadline_seconds
        if allowed_s is not None:
            since = moment_of(self.live.progress.start_time)
            ran_s = (self._node.clock.now() - since).total_seconds()
            await self._node.clock.sleep(max(0.0, allowed_s - ran_s))
            limit, still = self._limit, self.pod.spec.active_deadline_seconds == allowed_s
            if limit is not None and still and not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())

    async def _run_containers(self) -> None:
        """Returns once they have ended for good; sidecars still run then."""
        live = self.live
        async with asyncio.TaskGroup() as group:
            sidecars: list[asyncio.Task[None]] = []
            if await self._initialize(group, sidecars):
                live.progress.initialized = True
                live.publish()
                await asyncio.wait([group.create_task(keep(live, slot)) for slot in live.progress.main])
            for task in sidecars:
                task.cancel()

    async def _prepared(self) -> None:
        """Return once the pod's claims are prepared; containers that run already do not wait for it."""
        while has_claims(self.pod) and (why := await self._node.claims.prepare(self.pod)):
            self.live.tell("Warning", UNPREPARED, f"{PREFIX}{why}")
            await self._node.clock.sleep(AGAIN_S)

    def _open_sandbox(self) -> None:
        progress = self.live.progress
        if self.pod.spec.host_network:
            progress.pod_ip = self._node.host_ip
        else:
            address = self._node.addresses.take(self.pod.metadata.uid)
            progress.pod_ip = address or ""
            if address is None:
                self.live.tell(
                    "Warning",
                    "FailedCreatePodSandBox",
                    "failed to allocate for range 0: no IP addresses available",
                )
        progress.sandbox = True

    async def _initialize(self, group: asyncio.TaskGroup, sidecars: list[asyncio.Task[None]]) -> bool:
        """Run the init containers in order; False when one failed for good."""
        progress = self.live.progress
        for slot in (candidate for candidate in progress.init if not candidate.over):
            if slot.sidecar:
                sidecars.append(group.create_task(keep(self.live, slot)))
                if not progress.initialized:
                    await self._until_seen(slot)
            elif slot.exit_code != 0 and not progress.initialized:
                await keep(self.live, slot)
                if slot.exit_code != 0:
                    return False
        return True

    async def _until_seen(self, sidecar: ContainerSlot) -> None:
        """Return once it has started and still runs when the kubelet hears of that."""
        last: RunningContainer | None = None
        while last is None or sidecar.current is not last or not sidecar.started:
            await self.live.until_started(sidecar)
            last = sidecar.current
            await self._node.clock.sleep(_REPORT_DELAY_S)

    # Ending

    async def _refuse(self, failure: AdmissionFailure) -> None:
        self.live.tell("Warning", failure.reason, failure.message)
        self._node.statuses.put(self.pod, rejected(self.pod, failure, self.live.progress.start_time))
        await self._finish()

    async def _finish(self) -> None:
        self.finished = True
        uid = self.pod.metadata.uid
        while has_claims(self.pod) and (why := await self._node.claims.release(uid)):
            _LOG.warning("claims not given back, will retry: pod=%s why=%s", self.live.name, why)
            await self._node.clock.sleep(_RETRY_S)
        await self._released(uid)

    async def _end(self) -> None:
        if not self.finished:
            await stop_all(self.live, 0 if self._gone.is_set() else self.live.grace_s())
            self.live.progress.ended = True
            if not self._gone.is_set():
                self.live.publish()
            await self._finish()
        if not self._gone.is_set():
            await self._node.statuses.flush(self.pod.metadata.uid)
            await self._delete()
        await self._gone.wait()
        self._node.statuses.forget(self.pod.metadata.uid)
        self._node.starter.forget(self.pod.metadata.uid)
        self._node.addresses.free(self.pod.metadata.uid)
        self._node.runtime.remove_pod(self.pod.metadata.uid)

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

    # Showing

    def slot(self, name: str) -> ContainerSlot | None:
        """The container of that name."""
        return self.live.slot(name)

    @property
    def phase(self) -> str:
        """The phase that the containers add up to now."""
        return phase_of(self.pod, self.live.progress)
