"""What makes one pretended node differ from another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tonnage.decide.kubernetes.kubelet.cpus import Cpus, spread_cpus
from tonnage.decide.kubernetes.kubelet.topology_manager import NumaTopology, TopologyPolicy, TopologyScope
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.wire.objects import Taint

KUBELET_VERSION: Final = "v1.35.8"
KERNEL: Final = "6.12.48-amd64"
GRACE_AFTER_PLUGIN_LOSS_S: Final = 300.0
"""How long the kubelet keeps the devices of a plugin that has gone (they are unhealthy meanwhile)."""
PREFER_CLOSEST: Final = "prefer-closest-numa-nodes"
_AT_HOME: Final = 10
_AWAY: Final = 20


@dataclass(frozen=True, slots=True)
class KubeletNode:
    """A node as its kubelet is configured.

    `capacity` is the machine without its extended resources, which only device plugins add; `reserved` is
    what allocatable lacks of it. The kubelet's HTTPS server listens on `address` and `port` (0: any).
    """

    name: str
    address: str = "127.0.0.1"
    port: int = 0
    pod_cidr: str = "10.244.0.0/24"
    capacity: Mapping[str, str] = field(
        default_factory=lambda: {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
    )
    reserved: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    architecture: str = "amd64"
    kubelet_version: str = KUBELET_VERSION
    container_runtime: str = "containerd://2.2.1"
    os_image: str = "Debian GNU/Linux 13 (trixie)"
    kernel_version: str = KERNEL
    numa_nodes: int = 1
    cpu_policy: str = "none"
    """The `cpuManagerPolicy`: none or static; with it the first `reserved_cpus` are nobody's own."""
    reserved_cpus: int = 0
    numa_distances: tuple[tuple[int, ...], ...] = ()
    """As the machine's firmware has them, a row for each NUMA node; empty: 10 at home, 20 to all others."""
    topology_policy: TopologyPolicy = TopologyPolicy.NONE
    topology_scope: TopologyScope = TopologyScope.CONTAINER
    topology_options: Mapping[str, str] = field(default_factory=dict)
    health_in_status: bool = False
    """Whether pods say how the devices of their claims are (the gate ResourceHealthStatus)."""
    nvidia_runtime: bool = True
    """Whether the NVIDIA container toolkit is installed; without it a container sees no GPU (RUN-2)."""

    @property
    def kubelet_config(self) -> str:
        """Its KubeletConfiguration, as far as this kubelet is configurable."""
        head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        options = "".join(f'  {name}: "{value}"\n' for name, value in self.topology_options.items())
        return (
            f"{head}cpuManagerPolicy: {self.cpu_policy}\n"
            + (f'reservedSystemCPUs: "0-{self.reserved_cpus - 1}"\n' if self.reserved_cpus else "")
            + f"topologyManagerPolicy: {self.topology_policy}\n"
            f"topologyManagerScope: {self.topology_scope}\n"
            + (f"topologyManagerPolicyOptions:\n{options}" if options else "")
        )

    @property
    def own_cpus(self) -> Cpus | None:
        """The machine's CPUs, in order over its NUMA nodes, for a static CPU manager; None without one."""
        if self.cpu_policy == "none":
            return None
        count = int(parse_quantity(self.capacity["cpu"]))
        return spread_cpus(count, self.numa_nodes, reserved=self.reserved_cpus)

    @property
    def topology(self) -> NumaTopology:
        """What its topology manager goes by."""
        closest = self.topology_options.get(PREFER_CLOSEST) == "true"
        numbers = range(self.numa_nodes)
        distances = self.numa_distances or tuple(
            tuple(_AT_HOME if number == other else _AWAY for other in numbers) for number in numbers
        )
        return NumaTopology(
            self.numa_nodes, self.topology_policy, distances if closest else (), self.topology_scope
        )


@dataclass(frozen=True, slots=True)
class NodePaths:
    """Where things lie under a node's root folder. Sockets need a short root: a path holds 107 bytes."""

    root: Path

    @property
    def device_plugins(self) -> Path:
        return self.root / "var/lib/kubelet/device-plugins"

    @property
    def config(self) -> Path:
        return self.root / "var/lib/kubelet/config.yaml"

    @property
    def registration_socket(self) -> Path:
        return self.device_plugins / "kubelet.sock"

    @property
    def checkpoint(self) -> Path:
        return self.device_plugins / "kubelet_internal_checkpoint"

    @property
    def pod_resources_socket(self) -> Path:
        return self.root / "var/lib/kubelet/pod-resources/kubelet.sock"

    @property
    def plugins_registry(self) -> Path:
        return self.root / "var/lib/kubelet/plugins_registry"

    @property
    def claim_state(self) -> Path:
        return self.root / "var/lib/kubelet/dra_manager_state"

    @property
    def cdi_folders(self) -> tuple[Path, Path]:
        return self.root / "etc/cdi", self.root / "var/run/cdi"

    @property
    def cpu_state(self) -> Path:
        return self.root / "var/lib/kubelet/cpu_manager_state"

    @property
    def hardware(self) -> Path:
        return self.root / "hardware.yaml"
