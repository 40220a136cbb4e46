"""podWorkers: all pods of a node, who may run, and a worker for each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.kubelet.device_admission import ContainerNeed
from tonnage.loop.informer import Informer, Key
from tonnage.model.errors import ClusterError
from tonnage.twin.kubelet.admission import (
    AdmissionFailure,
    device_amounts,
    fit_failure,
    is_sidecar,
    own_cpus,
    predicate_failure,
    system_failure,
)
from tonnage.twin.kubelet.devices.manager import DeviceManager
from tonnage.twin.kubelet.live_pod import NodeServices
from tonnage.twin.kubelet.pod_worker import PodWorker
from tonnage.wire import kinds
from tonnage.wire.objects import Pod

_LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry:
    worker: PodWorker
    task: asyncio.Task[None]
    admitted: bool = False


class PodWorkers:
    """Workers by pod uid. `allocatable` gives the kubelet's own view of the node, in counted units.

    `minor` is the kubelet's release.
    """

    def __init__(
        self,
        node: NodeServices,
        devices: DeviceManager,
        allocatable: Callable[[], dict[str, int]],
        minor: int,
    ) -> None:
        self._node = node
        self._devices = devices
        self._allocatable = allocatable
        self._minor = minor
        self._entries: dict[str, _Entry] = {}
        self._uids: dict[Key, str] = {}
        self._changed: list[Key] = []
        self._wake = asyncio.Event()
        self._admission = asyncio.Lock()
        self._informer = Informer(
            node.api,
            kinds.POD,
            node.clock,
            field_selector=f"spec.nodeName={node.node_name}",
            on_change=self._note,
        )

    async def run(self) -> None:
        """Run pods until cancelled; containers stay as they are then."""
        informing = asyncio.create_task(self._informer.run())
        try:
            synced = asyncio.ensure_future(self._informer.synced())
            await asyncio.wait({informing, synced}, return_when=asyncio.FIRST_COMPLETED)
            await self._sweep()
            while not informing.done():
                self._dispatch()
                waking = asyncio.ensure_future(self._wake.wait())
                await asyncio.wait({informing, waking}, return_when=asyncio.FIRST_COMPLETED)
                waking.cancel()
                self._wake.clear()
            await informing
        finally:
            informing.cancel()
            tasks = [informing, *(entry.task for entry in self._entries.values())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def pods(self) -> list[Pod]:
        """Every pod that the kubelet knows, finished ones too."""
        return [entry.worker.pod for entry in self._entries.values()]

    def find(self, namespace: str, name: str) -> PodWorker | None:
        """The worker of a pod by its name."""
        entry = self._entries.get(self._uids.get((namespace, name), ""))
        return entry.worker if entry is not None else None

    def publish_claiming(self) -> None:
        """Have the status of pods with claims written again: their devices' health changed."""
        for entry in self._entries.values():
            if entry.worker.pod.spec.resource_claims and not entry.worker.finished:
                entry.worker.live.publish()

    def _note(self, key: Key) -> None:
        self._changed.append(key)
        self._wake.set()

    def _dispatch(self) -> None:
        changed, self._changed = dict.fromkeys(self._changed), []
        fresh: list[Pod] = []
        for key in changed:
            pod = self._informer.get(key[1], key[0])
            entry = self._entries.get(self._uids.get(key, ""))
            if entry is not None and (pod is None or pod.metadata.uid != entry.worker.pod.metadata.uid):
                entry.worker.vanish()
                del self._uids[key]
                entry = None
            if pod is None:
                continue
            if entry is not None:
                entry.worker.update(pod)
            else:
                fresh.append(pod)
        for pod in fresh:  # before any new pod gets an address
            if pod.status.pod_ip and not pod.spec.host_network:
                self._node.addresses.keep(pod.metadata.uid, pod.status.pod_ip)
        for pod in sorted(fresh, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name)):
            self._begin(pod)

    def _begin(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        worker = PodWorker(pod, self._node, self._admit, self._devices.release)
        task = asyncio.create_task(worker.run(), name=f"pod worker {pod.metadata.name}")
        task.add_done_callback(lambda task: self._worker_done(uid, task))
        adopted = bool(self._node.runtime.containers(uid))
        self._entries[uid] = _Entry(worker, task, admitted=adopted)
        self._uids[pod.metadata.namespace, pod.metadata.name] = uid

    def _worker_done(self, uid: str, task: asyncio.Task[None]) -> None:
        self._entries.pop(uid, None)
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("pod worker failed: uid=%s", uid, exc_info=task.exception())

    async def _admit(self, pod: Pod) -> AdmissionFailure | None:
        """Devices first, then everything else, as the kubelet's admission handlers stand."""
        uid = pod.metadata.uid
        async with self._admission:
            failure = await self._devices.allocate(uid, _needs(pod))
            if failure is None:
                others = [
                    entry.worker.pod
                    for entry in self._entries.values()
                    if entry.admitted and not entry.worker.finished
                ]
                failure = system_failure(pod) or fit_failure(pod, others, self._allocatable(), self._minor)
                failure = failure or await self._broken(pod, others)
                if failure is not None:
                    await self._devices.release(uid)
            entry = self._entries.get(uid)
            if failure is None and entry is not None:
                entry.admitted = True
        return failure

    async def _broken(self, pod: Pod, others: list[Pod]) -> AdmissionFailure | None:
        """A rule that the pod breaks by the Node object of now; without one it counts as kept."""
        try:
            node = await self._node.api.get(kinds.NODE, self._node.node_name)
        except ClusterError as error:
            _LOG.info("node not read for admission: pod=%s error=%s", pod.metadata.name, error)
            return None
        return predicate_failure(pod, others, node)

    async def _sweep(self) -> None:
        """Forget pods that were deleted while the kubelet was down."""
        uids = {pod.metadata.uid for pod in self._informer}
        for uid in self._node.runtime.pods() - uids:
            self._node.runtime.remove_pod(uid)
        for uid in self._devices.holders() - uids:
            await self._devices.release(uid)
        await self._node.claims.sweep(uids)


def _needs(pod: Pod) -> list[ContainerNeed]:
    own = own_cpus(pod)
    init = [
        ContainerNeed(
            c.name,
            device_amounts(pod, c),
            reusable_after=not is_sidecar(c),
            sidecar=is_sidecar(c),
            cpus=own.get(c.name, 0),
        )
        for c in pod.spec.init_containers
    ]
    return init + [
        ContainerNeed(c.name, device_amounts(pod, c), cpus=own.get(c.name, 0)) for c in pod.spec.containers
    ]
