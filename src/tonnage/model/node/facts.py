"""What `tonnage doctor` looks at on a node, as values: what was seen, and in words what could not be.

Paths are those of the node, whatever root stood before them. None or an empty value is what is not known
unless the field says otherwise; a whole group that is missing has its reason in `NodeFacts.troubles`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tonnage.model.devices.inventory import GpuProcess, Inventory
from tonnage.model.devices.sharing import Hold, PluginConfig
from tonnage.model.json import JsonObject
from tonnage.model.node.gpu_status import ClaimReport
from tonnage.model.node.machine import Machine
from tonnage.model.node.runtime_config import RuntimeConfig, ToolkitConfig


@dataclass(frozen=True, slots=True)
class PciGpu:
    """A GPU on the bus. `driver` is the kernel driver that has it, empty if none; `dead`: it does not answer.

    `vendor` is `10de`, `1002` or `1da3`.
    """

    address: str
    vendor: str
    device: str = ""
    driver: str = ""
    dead: bool = False


@dataclass(frozen=True, slots=True)
class HardwareFacts:
    """`gpus` is None where the PCI bus cannot be seen."""

    gpus: tuple[PciGpu, ...] | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """An installed kernel. `headers`: NVIDIA's module can be built for it; `module`: it has been."""

    release: str
    headers: bool = False
    module: bool = False


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """`modules` are those loaded now, of those that matter here. `version` is the loaded NVIDIA module's.

    `kernels` are in the order of releases. `blacklists` are files and parameters that keep nouveau away.
    `container_version` is that of a driver that a container has installed under `container_root`;
    `ready` has the variables by which the GPU operator says whose driver it uses, None without them.
    """

    modules: frozenset[str] = frozenset()
    version: str = ""
    kernel: str = ""
    kernels: tuple[Kernel, ...] = ()
    os_id: str = ""
    nouveau_installed: bool = False
    blacklists: tuple[str, ...] = ()
    secure_boot: bool | None = None
    taint: int | None = None
    container_root: str = ""
    container_version: str = ""
    ready: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A file under /dev; `numbers` are (major, minor) of a character device, None of anything else."""

    path: str
    numbers: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class DeviceNodeFacts:
    """`majors` are the kernel's by name; `minors` the GPUs' by PCI address, `capabilities` those of MIG."""

    nodes: Mapping[str, NodeFile] = field(default_factory=dict)
    majors: Mapping[str, int] | None = None
    minors: Mapping[str, int] = field(default_factory=dict)
    capabilities: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """A driver library: its name for the loader, the real file, and the version in that one's name."""

    name: str
    path: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """Libraries in the usual folders of `root`, and where the loader's cache leads by name."""

    root: str = "/"
    files: tuple[LibraryFile, ...] = ()
    cache: Mapping[str, tuple[str, ...]] | None = None
    cache_trouble: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """Container runtimes as they are configured. `name` and `version` are of the one that kubelet has.

    `existing` are those of the paths that configurations name which are there; `programs` the NVIDIA
    programs found. `packages` are versions of Debian packages. `nri_plugins` are NVIDIA plugins that want to
    be called over NRI. `hooks` are OCI hook files of NVIDIA's.
    """

    name: str = ""
    version: str = ""
    configs: tuple[RuntimeConfig, ...] = ()
    toolkit: ToolkitConfig | None = None
    existing: frozenset[str] = frozenset()
    programs: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    nri_plugins: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SpecDocument:
    """A CDI spec's file and what stands in it, None with the reason in `trouble`; `rank` 1 wins over 0."""

    path: str
    rank: int
    document: JsonObject | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class CdiFacts:
    """The specs in the folders that runtimes read; `missing` are host paths in them where nothing is.

    `crowded` counts the specs of a folder that has more than were looked at, the first by name.
    """

    specs: tuple[SpecDocument, ...] = ()
    missing: frozenset[str] = frozenset()
    crowded: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SocketFile:
    """A Unix socket: `answer` is `listens`, `nobody`, `silent`, or why it cannot be told."""

    name: str
    answer: str
    made: float = 0.0


@dataclass(frozen=True, slots=True)
class KubeletFacts:
    """kubelet's folders. `socket` is where plugins register; `registered` counts healthy devices by resource.

    `drivers` are those by which drivers register, for claims and volumes; None: their folder is not there.
    `checkpoint_trouble` is why the checkpoint cannot be used. `contained`: this program itself is in a pod.
    """

    folder: bool = False
    socket: SocketFile | None = None
    plugins: tuple[SocketFile, ...] = ()
    drivers: tuple[SocketFile, ...] | None = None
    pod_resources: SocketFile | None = None
    registered: Mapping[str, int] | None = None
    checkpoint_trouble: str = ""
    contained: bool = False
    now: float = 0.0


@dataclass(frozen=True, slots=True)
class PluginProcess:
    """A device plugin that runs. `sees_kubelet`: kubelet's folder is in its file system; None: not known."""

    pid: int
    name: str
    sees_kubelet: bool | None = None


@dataclass(frozen=True, slots=True)
class AgentPage:
    """An answer of the agent over HTTP."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class PluginFacts:
    """`running`: an agent of ours holds the node's lock, None when that cannot be told.

    `config` is the configuration it ran last, None if there is none or `config_trouble` says why it cannot be
    read. `damaged` are other files of its state that cannot be used. `address` is where
    it serves, `ready` and `metrics` its pages, None if they cannot be had.
    """

    running: bool | None = None
    lock_trouble: str = ""
    processes: tuple[PluginProcess, ...] = ()
    config: PluginConfig | None = None
    config_source: str = ""
    config_trouble: str = ""
    damaged: tuple[str, ...] = ()
    address: str = ""
    ready: AgentPage | None = None
    metrics: AgentPage | None = None


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod of this node, as the cluster has it."""

    namespace: str
    name: str
    uid: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    images: tuple[str, ...] = ()
    runtime_class: str = ""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What the API server says of the node. `conditions` are (status, message) by type.

    `runtime` is such as `containerd://2.1.4`; `runtime_classes` are handlers by name. `heartbeat` is the
    agent's last one and `read_at` when this was read, both by the API server's clock.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    conditions: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    runtime: str = ""
    pods: tuple[PodFacts, ...] = ()
    runtime_classes: Mapping[str, str] = field(default_factory=dict)
    forbidden: frozenset[str] = frozenset()
    """Kinds that the API server refused to list."""
    unlisted: frozenset[str] = frozenset()
    """Kinds of which a file has no object at all."""
    heartbeat: datetime | None = None
    read_at: datetime | None = None
    claims: ClaimReport | None = None
    """What the agent reports that it offers as claims."""


@dataclass(frozen=True, slots=True)
class GpuContainer:
    """A container with a process. `env` has the variables that matter; `minors` the GPUs whose nodes it has.

    `minors` is None where nobody may look. `privileged`: it has every device by right.
    """

    pid: int
    pod_uid: str
    container_id: str
    namespace: str = ""
    pod: str = ""
    container: str = ""
    env: Mapping[str, str] | None = None
    minors: frozenset[int] | None = None
    privileged: bool = False


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """Containers of pods, and what kubelet gave to whom. Holds name a pod, or only its uid (`by_uid`); then
    none is by a claim. Those by claims have devices by the names that claims know.

    `owners` are ids of containers by process, of those processes that use a GPU.
    """

    containers: tuple[GpuContainer, ...] = ()
    holds: tuple[Hold, ...] | None = None
    by_uid: bool = False
    trouble: str = ""
    owners: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DriverAnswer:
    """What the driver itself says. `hangs`: it owes an answer. `error`: why it gives none.

    `pretended`: devices out of a file, so that there is no driver to look at. `used_mib` is the memory in use
    by device, `processes` use it. `shown` counts the GPUs that it can read, screens' included; None: those
    of `inventory`.
    """

    inventory: Inventory | None = None
    error: str = ""
    hangs: bool = False
    queried: bool = True
    pretended: bool = False
    used_mib: Mapping[str, int] = field(default_factory=dict)
    processes: tuple[GpuProcess, ...] = ()
    shown: int | None = None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Everything, by layer; None with the reason in `troubles` under the field's name."""

    node: str = ""
    answer: DriverAnswer = field(default_factory=DriverAnswer)
    hardware: HardwareFacts | None = None
    machine: Machine = field(default_factory=Machine)
    driver: DriverFacts | None = None
    device_nodes: DeviceNodeFacts | None = None
    libraries: LibraryFacts | None = None
    runtime: RuntimeFacts | None = None
    cdi: CdiFacts | None = None
    kubelet: KubeletFacts | None = None
    plugin: PluginFacts | None = None
    cluster: ClusterFacts | None = None
    workload: WorkloadFacts | None = None
    troubles: Mapping[str, str] = field(default_factory=dict)
