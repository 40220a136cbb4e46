"""kubecontainer.Runtime as the kubelet uses it, and what a program inside a container is given.

The pretended runtime is `PretendedRuntime` in `runtime`; anything else that keeps these promises will do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeAlias

from tonnage.ports.clock import Clock
from tonnage.ports.node import DeviceBackend
from tonnage.twin.kubelet.containers.compute_turns import Work
from tonnage.twin.kubelet.containers.files import FileTree, MemoryVolume
from tonnage.twin.kubelet.containers.logs import ContainerLog
from tonnage.wire.objects import Container, Pod


@dataclass(frozen=True, slots=True)
class PluginInjection:
    """What device plugins had put into a container: never what the pod's author wrote.

    `sources` are the mounts' paths on the host, by path in the container; `cdi_env` is what of `env` the
    runtime adds, whatever the pod says.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    device_nodes: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    cdi_env: Mapping[str, str] = field(default_factory=dict)


class Stdio(Protocol):
    """A program's three streams."""

    async def read(self) -> bytes:
        """The next piece of standard input; empty at its end."""
        ...

    def write(self, content: bytes) -> None: ...

    def write_error(self, content: bytes) -> None: ...


class ServedPorts:
    """Ports at which a container's programs are reached, and the loopback port of this machine for each.

    Pretended pods have no network of their own. `on_change` is called after every change.
    """

    def __init__(self) -> None:
        self._own: dict[int, int] = {}
        self.on_change: Callable[[], None] = lambda: None

    def open(self, port: int, own: int) -> None:
        """What the container serves at `port` is reached at `own`."""
        self._own[port] = own
        self.on_change()

    def own(self, port: int) -> int | None:
        """Where the container's port is reached; None: nobody serves there."""
        return self._own.get(port)

    def ports(self) -> tuple[int, ...]:
        """Those of the container."""
        return tuple(self._own)


TokenSource: TypeAlias = Callable[[], Awaitable[str]]
"""A token of the pod's service account, as its volume would hold it; empty when there is none."""


async def no_token() -> str:
    """Nothing."""
    return ""


def no_report(latency_s: float) -> str:
    """Nothing."""
    del latency_s
    return ""


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """All that a program may know: its pod, its node, its own arguments and streams, and injected devices.

    A program is stopped by cancelling it, which stands for SIGTERM; it may catch that to end in order. It
    returns its exit code. `interactive` says that somebody types at it, `main` that it is what the
    container was started for. A server, or what stands for one, sets `serving`, and opens `ports` if others
    are to reach it. `load_report` says how the workload fares on its GPUs, and how its services would meet a
    latency; empty without a workload.
    """

    pod: Pod
    container: Container
    node_name: str
    node_root: Path
    argv: tuple[str, ...]
    env: Mapping[str, str]
    clock: Clock
    devices: DeviceBackend
    injection: PluginInjection
    stdio: Stdio
    interactive: bool = False
    token: TokenSource = no_token
    serving: asyncio.Event = field(default_factory=asyncio.Event)
    main: bool = False
    files: FileTree = field(default_factory=FileTree)
    work: Work = field(default_factory=Work)
    ports: ServedPorts = field(default_factory=ServedPorts)
    load_report: Callable[[float], str] = no_report


Program: TypeAlias = Callable[[ContainerContext], Awaitable[int]]


class ContainerLoads(Protocol):
    """What containers do to the GPUs that they are given."""

    def around(self, program: Program, context: ContainerContext) -> Program:
        """What really runs in the place of a container's program."""
        ...

    def report(self, context: ContainerContext, latency_s: float) -> str:
        """`ContainerContext.load_report` of a container."""
        ...


@dataclass(frozen=True, slots=True)
class ContainerStart:
    """A container to be started. `env` already holds everything, injected variables too."""

    pod: Pod
    container: Container
    attempt: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    injection: PluginInjection
    token: TokenSource = no_token
    files: FileTree = field(default_factory=FileTree)


class RunningContainer:
    """A container from its start until the kubelet forgets it. It outlives a restart of the kubelet.

    `serving` is set where its program is a server, or stands for one.
    """

    def __init__(
        self,
        container_id: str,
        config: ContainerStart,
        started_at: datetime,
        log: ContainerLog,
        work: Work | None = None,
    ) -> None:
        self.id = container_id
        self.work = work or Work()
        self.config = config
        self.started_at = started_at
        self.log = log
        self.finished_at: datetime | None = None
        self.exit_code: int | None = None
        self.exited = asyncio.Event()
        self.serving = asyncio.Event()
        self.ports = ServedPorts()

    @property
    def name(self) -> str:
        return self.config.container.name

    @property
    def running(self) -> bool:
        return self.exit_code is None


class ImageError(Exception):
    """An image cannot be pulled; the text is the runtime's."""


class StartError(Exception):
    """A container cannot be created; the text is the runtime's."""


class ExecError(Exception):
    """A command cannot be started in a container; the text is the runtime's."""


class ContainerRuntime(Protocol):
    """What the kubelet asks of the runtime of its node."""

    def images(self) -> Mapping[str, int]:
        """Images on the node and their sizes in bytes."""
        ...

    async def pull(self, image: str) -> int:
        """Bring the image here and return its size in bytes. Raises ImageError."""
        ...

    def start(self, config: ContainerStart) -> RunningContainer:
        """Create and start a container. Raises StartError."""
        ...

    def containers(self, pod_uid: str) -> list[RunningContainer]:
        """The pod's containers, dead ones too, oldest first."""
        ...

    def volume(self, name: str) -> MemoryVolume:
        """The volume of that name, which containers write to."""
        ...

    def pods(self) -> frozenset[str]:
        """Uids of all pods that have containers here."""
        ...

    async def stop(self, container: RunningContainer, grace_s: float) -> None:
        """SIGTERM, then after `grace_s` of the clock SIGKILL. Returns when the container has ended."""
        ...

    def remove_pod(self, pod_uid: str) -> None:
        """Forget the pod's dead containers and their logs."""
        ...

    async def execute(
        self, container: RunningContainer, argv: Sequence[str], stdio: Stdio, *, interactive: bool
    ) -> int:
        """Run a command inside and return its exit code. Raises ExecError."""
        ...

    def attach(self, container: RunningContainer) -> Stdio | None:
        """Where to write the container's standard input (by `write`), if it has one."""
        ...
