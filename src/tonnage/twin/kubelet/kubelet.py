"""The twin's kubelet: one per node, real protocols outside, a pretended runtime inside."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from tonnage.loop.events import recorder_over
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.feature_gates import minor_of
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.kubelet.addresses import PodAddresses
from tonnage.twin.kubelet.claims.manager import ClaimManager
from tonnage.twin.kubelet.containers.runtime_port import ContainerRuntime
from tonnage.twin.kubelet.containers.starter import ContainerStarter, StarterNode
from tonnage.twin.kubelet.devices.cpu_manager import CpuManager
from tonnage.twin.kubelet.devices.manager import DeviceManager
from tonnage.twin.kubelet.devices.pod_resources import PodResources
from tonnage.twin.kubelet.devices.registration import Registration
from tonnage.twin.kubelet.live_pod import NodeServices
from tonnage.twin.kubelet.node_disk import LocalDisk, NodeDisk
from tonnage.twin.kubelet.node_spec import KubeletNode, NodePaths
from tonnage.twin.kubelet.node_status import NodeReporter, ReportedMachine
from tonnage.twin.kubelet.pods import PodWorkers
from tonnage.twin.kubelet.status_writers import Outbox, StatusWriter
from tonnage.wire.objects import Pod

_LOG: Final = logging.getLogger(__name__)


class _Incarnation:
    """Everything that a kubelet process holds in memory. Its end loses all of it, as a kill would."""

    def __init__(
        self,
        spec: KubeletNode,
        api: KubernetesApi,
        clock: Clock,
        paths: NodePaths,
        runtime: ContainerRuntime,
        disk: NodeDisk,
    ) -> None:
        self.port = spec.port
        own = spec.own_cpus
        cpus = CpuManager(own, paths.cpu_state, disk) if own is not None else None
        self.devices = DeviceManager(paths, disk, clock, spec.topology, self._devices_changed, cpus)
        self._outbox = Outbox(recorder_over(api, clock, "kubelet", spec.name))
        machine = ReportedMachine(self.devices, runtime, lambda: self.port)
        self.reporter = NodeReporter(spec, api, clock, machine, self._outbox)
        self.statuses = StatusWriter(api, clock)
        on_health = self._health_changed if spec.health_in_status else None
        self.claims = ClaimManager(spec.name, api, clock, paths, disk, on_health)
        node = StarterNode(spec.address, paths, spec.nvidia_runtime)
        services = NodeServices(
            spec.name,
            spec.address,
            api,
            clock,
            runtime,
            ContainerStarter(node, api, clock, runtime, (self.devices, self.claims), self._outbox),
            PodAddresses(spec.pod_cidr),
            self.statuses,
            self._outbox,
            self.claims,
        )
        minor = minor_of(spec.kubelet_version)
        self.pods = PodWorkers(services, self.devices, self.reporter.allocatable, minor)
        self._registration = Registration(paths, self.devices.resources)
        self._pod_resources = PodResources(paths, self.devices, self.claims, self.pods.pods)

    def _devices_changed(self) -> None:
        self.reporter.changed()

    def _health_changed(self) -> None:
        self.pods.publish_claiming()

    async def run(self, ready: asyncio.Event) -> None:
        """Live until cancelled. `ready` is set once the sockets stand."""
        try:
            await self.devices.start()
            await self.claims.start()
            await self._registration.start()
            await self._pod_resources.start()
            ready.set()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._outbox.run())
                group.create_task(self.statuses.run())
                group.create_task(self.reporter.run())
                group.create_task(self.pods.run())
                group.create_task(self.claims.run())
        finally:
            await self._registration.stop()
            await self._pod_resources.stop()
            await self.devices.resources.stop()


class Kubelet:
    """The kubelet of one node; `runtime` and what lies under `root` outlive its restarts."""

    def __init__(
        self,
        spec: KubeletNode,
        api: KubernetesApi,
        clock: Clock,
        root: Path,
        runtime: ContainerRuntime,
        *,
        disk: NodeDisk | None = None,
    ) -> None:
        self.spec = spec
        self.runtime = runtime
        self.paths = NodePaths(root)
        self._api = api
        self._clock = clock
        self._disk = disk or LocalDisk()
        self._port = spec.port
        self._ready = asyncio.Event()
        self._restart = asyncio.Event()
        self._now: _Incarnation | None = None

    @property
    def devices(self) -> DeviceManager:
        """The device manager of now. Raises RuntimeError while the kubelet does not run."""
        return self._living().devices

    @property
    def pods(self) -> PodWorkers:
        """The pods of now. Raises RuntimeError while the kubelet does not run."""
        return self._living().pods

    def status(self, pod: Pod) -> JsonObject:
        """What it says of the pod now, or said before it was started anew.

        Raises:
            RuntimeError: the kubelet does not run.
        """
        return self._living().statuses.newest(pod.metadata.uid) or msgspec.to_builtins(pod.status)

    def now(self) -> datetime:
        """The kubelet's clock."""
        return self._clock.now()

    def serves_at(self, port: int) -> None:
        """Tell where the node's HTTPS server listens; the Node object names it."""
        self._port = port
        if self._now is not None:
            self._now.port = port
            self._now.reporter.changed()

    async def ready(self) -> None:
        """Return once the kubelet's sockets stand."""
        await self._ready.wait()

    async def restart(self) -> None:
        """Kill the kubelet process and start it again; returns once its sockets stand.

        What it held in memory is gone and its sockets are closed; checkpoint and containers stay.
        """
        self._ready.clear()
        self._restart.set()
        await self._ready.wait()

    async def run(self) -> None:
        """Run until cancelled, through any number of restarts. Raises OSError if the root cannot be used."""
        while True:
            self._restart.clear()
            self._now = _Incarnation(self.spec, self._api, self._clock, self.paths, self.runtime, self._disk)
            self._now.port = self._port
            life = asyncio.create_task(self._now.run(self._ready), name=f"kubelet {self.spec.name}")
            killed = asyncio.create_task(self._restart.wait())
            try:
                await asyncio.wait({life, killed}, return_when=asyncio.FIRST_COMPLETED)
                if life.done():
                    life.result()
            finally:
                life.cancel()
                killed.cancel()
                await asyncio.gather(life, killed, return_exceptions=True)
            _LOG.info("kubelet restarts: node=%s", self.spec.name)

    def _living(self) -> _Incarnation:
        if self._now is None:
            raise RuntimeError("the kubelet does not run")
        return self._now
