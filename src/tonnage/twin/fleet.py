"""The pretended nodes of a scenario: kubelet, containers and hardware each, on any API server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tonnage.documents.scenario import Scenario
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.kubernetes.feature_gates import HEALTH, FeatureGates, minor_of
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.in_process_client import kubelet_client
from tonnage.twin.apiserver.server import LOOPBACK
from tonnage.twin.certificate_authority import CertificateAuthority
from tonnage.twin.devices.driver_files import install_driver
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.twin.feature_discovery import (
    install_kernel,
    install_machine,
    pcie_roots,
    pretended_machine,
)
from tonnage.twin.kubelet.containers.runtime import PretendedRuntime
from tonnage.twin.kubelet.containers.runtime_port import Program
from tonnage.twin.kubelet.kubelet import Kubelet
from tonnage.twin.kubelet.node_disk import FaultyDisk, LocalDisk
from tonnage.twin.kubelet.node_spec import KUBELET_VERSION
from tonnage.twin.kubelet.programs.image_programs import Programs
from tonnage.twin.kubelet.server import KubeletServer
from tonnage.twin.machines import HardwareFile, MachineSpec, machines_of
from tonnage.twin.mps_control import MpsProgram
from tonnage.twin.pretended_loads import PretendedLoads

_LOG: Final = logging.getLogger(__name__)
_SOCKET_PATH_BYTES: Final = 107
_LONGEST_SOCKET: Final = "var/lib/kubelet/device-plugins/nvidia-mig-7g.141gb.me.all.shared.sock"


class Loops:
    """Loops that run until `stop`. One that ends by itself is a defect, and is logged."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def run(self, name: str, loop: Coroutine[object, object, None]) -> None:
        """Start a loop."""
        task = asyncio.create_task(loop, name=name)
        task.add_done_callback(_tell_end)
        self._tasks.append(task)

    async def stop(self) -> None:
        """End all of them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class TwinNode:
    """One node with all that a test may do to it."""

    machine: MachineSpec
    kubelet: Kubelet
    runtime: PretendedRuntime
    hardware: HardwareFile
    mps: MpsProgram
    devices: ScenarioBackend
    disk: FaultyDisk
    root: Path
    api: KubernetesApi


class TwinNodes:
    """Every node of a scenario.

    `api_of` gives the API that the node of this number uses; `programs` maps image repositories to what their
    containers run. `runtime_dir` holds the nodes' folders with sockets: keep it short.
    """

    def __init__(
        self,
        scenario: Scenario,
        clock: Clock,
        api_of: Callable[[int], KubernetesApi],
        *,
        runtime_dir: Path,
        programs: Mapping[str, Program],
        kubelet_version: str = KUBELET_VERSION,
    ) -> None:
        self._clock = clock
        self._servers: KubeletServer | None = None
        commands = Programs(programs)
        has_health = FeatureGates(minor_of(kubelet_version), scenario.gates).has(HEALTH)
        nodes: dict[str, TwinNode] = {}
        for number, machine in enumerate(machines_of(scenario, address=LOOPBACK)):
            spec = replace(machine.spec, kubelet_version=kubelet_version, health_in_status=has_health)
            reported = replace(machine, spec=spec)
            nodes[machine.spec.name] = self._node(
                reported, api_of(number), runtime_dir / str(number), commands
            )
        self.nodes: Mapping[str, TwinNode] = nodes

    def _node(self, machine: MachineSpec, api: KubernetesApi, root: Path, programs: Programs) -> TwinNode:
        if len(str(root / _LONGEST_SOCKET).encode()) > _SOCKET_PATH_BYTES:
            why = f"a Unix socket's path holds {_SOCKET_PATH_BYTES} bytes"
            raise ConfigError(
                Problem("the runtime folder's path is too long", str(root), why, "choose a shorter one")
            )
        disk = FaultyDisk(LocalDisk(), self._clock)
        hardware = HardwareFile(root)
        devices = ScenarioBackend(hardware.path, self._clock)
        loads = PretendedLoads(devices, hardware)
        runtime = PretendedRuntime(machine.spec.name, root, self._clock, programs, devices, loads)
        own = kubelet_client(api, machine.spec.name, machine.spec.labels)
        kubelet = Kubelet(machine.spec, own, self._clock, root, runtime, disk=disk)
        return TwinNode(machine, kubelet, runtime, hardware, MpsProgram(root), devices, disk, root, own)

    async def start(self, authority: CertificateAuthority, loops: Loops) -> None:
        """Let every kubelet listen and run; nodes are Ready within seconds."""
        serving = authority.issue("kubelet", hosts=[LOOPBACK, "localhost"], server=True)
        self._servers = KubeletServer(authority.certificate_pem, serving)
        for node in self.nodes.values():
            machine = pretended_machine(node.machine.hardware, node.machine.spec.kernel_version)
            install_machine(node.root, machine, pcie_roots(node.machine.hardware))
            (node.root / "etc/hostname").write_text(f"{node.machine.spec.name}\n", encoding="ascii")
            config = node.kubelet.paths.config
            config.parent.mkdir(parents=True)
            config.write_text(node.machine.spec.kubelet_config, encoding="ascii")
            node.hardware.write(node.machine.hardware)
            if node.machine.hardware.devices:
                node.devices.start_load()
                node.mps.install()
                if node.machine.group.driver == "host":
                    install_driver(node.root, node.machine.hardware.driver_version)
                else:
                    install_kernel(node.root, node.machine.spec.kernel_version, node.machine.group)
            await self._servers.listen(node.kubelet)
            loops.run(f"kubelet {node.machine.spec.name}", node.kubelet.run())
            for number, driver in enumerate(node.machine.group.claim_drivers):
                from tonnage.twin.kubelet.claims.vendor_driver import PretendedVendorDriver

                name = node.machine.spec.name
                pretended = PretendedVendorDriver(
                    driver, name, number, node.api, self._clock, node.kubelet.paths
                )
                loops.run(f"{driver.name} of {name}", pretended.run())

    async def stop(self) -> None:
        """End containers and servers, once the loops have ended."""
        await asyncio.gather(*(node.runtime.shutdown() for node in self.nodes.values()))
        if self._servers is not None:
            await self._servers.close()


def _tell_end(task: asyncio.Task[None]) -> None:
    """Say it, or the cluster would quietly stand still."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("a loop of the twin ended loop=%s error=%s", task.get_name(), error, exc_info=error)
