"""The twin as a whole: API server, controllers, scheduler and a kubelet per node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.documents.scenario import Scenario
from tonnage.model.errors import ConfigError, Problem
from tonnage.twin.apiserver.server import LOOPBACK, ApiServer, Endpoint
from tonnage.twin.controllers.suite import run_controllers
from tonnage.twin.kubelet.containers import PretendedRuntime
from tonnage.twin.kubelet.files import FaultyDisk, LocalDisk
from tonnage.twin.kubelet.kubelet import Kubelet
from tonnage.twin.kubelet.programs.table import Programs
from tonnage.twin.kubelet.runtime import Program
from tonnage.twin.kubelet.server import KubeletServer
from tonnage.twin.pki import Authority
from tonnage.twin.platform import platform_objects
from tonnage.twin.scheduler import Scheduler
from tonnage.twin.world import HardwareFile, Machine, machines_of

_LOG: Final = logging.getLogger(__name__)
_SOCKET_PATH_BYTES: Final = 107
_LONGEST_SOCKET: Final = "var/lib/kubelet/device-plugins/nvidia-mig-7g.141gb.me.all.shared.sock"


@dataclass(frozen=True, slots=True)
class TwinNode:
    """One node with all that a test may do to it."""

    machine: Machine
    kubelet: Kubelet
    runtime: PretendedRuntime
    hardware: HardwareFile
    disk: FaultyDisk
    root: Path


class Cluster:
    """A GPU cluster in this process. `programs` maps image repositories to what their containers run.

    `runtime_dir` holds the nodes' folders with sockets: keep it short. First `serve`, then `populate`.
    """

    def __init__(
        self,
        scenario: Scenario,
        clock: Clock,
        *,
        runtime_dir: Path,
        programs: Mapping[str, Program] = MappingProxyType({}),
        port: int = 0,
    ) -> None:
        self.server = ApiServer(clock)
        self.api: KubernetesApi = self.server.local()
        self._scenario = scenario
        self._clock = clock
        self._port = port
        self._authority = Authority.generate(clock.now())
        self._tasks: list[asyncio.Task[None]] = []
        self._kubelets: KubeletServer | None = None
        commands = Programs(programs)
        self.nodes: Mapping[str, TwinNode] = {
            machine.spec.name: self._node(machine, runtime_dir / str(number), commands)
            for number, machine in enumerate(machines_of(scenario, address=LOOPBACK))
        }

    def _node(self, machine: Machine, root: Path, programs: Programs) -> TwinNode:
        if len(str(root / _LONGEST_SOCKET).encode()) > _SOCKET_PATH_BYTES:
            why = f"a Unix socket's path holds {_SOCKET_PATH_BYTES} bytes"
            raise ConfigError(
                Problem("the runtime folder's path is too long", str(root), why, "choose a shorter one")
            )
        disk = FaultyDisk(LocalDisk(), self._clock)
        runtime = PretendedRuntime(machine.spec.name, root, self._clock, programs)
        kubelet = Kubelet(machine.spec, self.api, self._clock, root, runtime, disk=disk)
        return TwinNode(machine, kubelet, runtime, HardwareFile(root), disk, root)

    async def serve(self) -> Endpoint:
        """Let the API server answer; there are no nodes yet.

        Raises:
            ConfigError: the port is in use.
        """
        return await self.server.start(self._authority, host=LOOPBACK, port=self._port)

    async def populate(self, kubeconfig: Path) -> None:
        """Start controllers, scheduler and kubelets and install the agents; nodes are Ready within seconds.

        The agents find the API server by `kubeconfig`, which the caller has written from the endpoint.
        """
        self._run(
            "controllers",
            run_controllers(self.api, self._clock, root_ca=self._authority.certificate_pem.decode()),
        )
        self._run("scheduler", Scheduler(self.api, self._clock, version=self._scenario.server_version).run())
        serving = self._authority.issue("kubelet", hosts=[LOOPBACK, "localhost"], server=True)
        self._kubelets = KubeletServer(self._authority.certificate_pem, serving)
        for node in self.nodes.values():
            node.root.mkdir(parents=True)
            node.hardware.write(node.machine.hardware)
            await self._kubelets.listen(node.kubelet)
            self._run(f"kubelet {node.machine.spec.name}", node.kubelet.run())
        for kind, namespace, body in platform_objects(self._scenario.config_texts, kubeconfig):
            await self.api.create(kind, body, namespace=namespace)

    async def stop(self) -> None:
        """End loops, containers and servers, in this order. Nothing of it runs afterwards."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(node.runtime.shutdown() for node in self.nodes.values()))
        if self._kubelets is not None:
            await self._kubelets.close()
        await self.server.stop()

    def _run(self, name: str, loop: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(loop, name=name)
        task.add_done_callback(_tell_end)
        self._tasks.append(task)


def _tell_end(task: asyncio.Task[None]) -> None:
    """A loop that ends by itself is a defect: say so, or the cluster would quietly stand still."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("a loop of the twin ended loop=%s error=%s", task.get_name(), error, exc_info=error)
