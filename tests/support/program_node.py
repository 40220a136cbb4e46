"""A container's programs on a pretended node with two GPUs, without a kubelet."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from tonnage.twin.clock import VirtualClock
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.twin.kubelet.containers.runtime import PretendedRuntime
from tonnage.twin.kubelet.containers.runtime_port import (
    ContainerStart,
    PluginInjection,
    Program,
    RunningContainer,
)
from tonnage.twin.kubelet.programs.image_programs import Programs
from tonnage.wire.objects import Container, ObjectMeta, Pod

TWO = "GPU-6a1f,GPU-77c2"
HARDWARE = """\
driverVersion: "570.124.06"
cudaVersion: "12.8"
devices:
- {uuid: GPU-6a1f, model: A100-40, memoryUsedMib: 1024, utilizationPercent: 40, temperatureC: 51}
- {uuid: GPU-77c2, model: T4}
- {uuid: GPU-0000, model: T4}
"""


class Memory:
    """Streams of one command."""

    def __init__(self, given: bytes = b"") -> None:
        self._given = [given] if given else []
        self.out = b""
        self.err = b""

    async def read(self) -> bytes:
        return self._given.pop() if self._given else b""

    def write(self, data: bytes) -> None:
        self.out += data

    def write_error(self, data: bytes) -> None:
        self.err += data


class Node:
    """A runtime with one container to execute commands in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = VirtualClock()
        self.uids = count()
        self.runtime = self.runtime_with({})
        (root / "hardware.yaml").write_text(HARDWARE)

    def runtime_with(self, programs: Mapping[str, Program]) -> PretendedRuntime:
        devices = ScenarioBackend(self.root / "hardware.yaml", self.clock)
        return PretendedRuntime("a100-0", self.root, self.clock, Programs(programs), devices)

    def start(
        self, *argv: str, visible: str = "", mounts: tuple[str, ...] = (), image: str = "ubuntu:24.04"
    ) -> RunningContainer:
        pod = Pod(metadata=ObjectMeta(name="web", namespace="default", uid=f"uid-{next(self.uids)}"))
        container = Container(name="main", image=image, command=list(argv))
        variables = {"NVIDIA_VISIBLE_DEVICES": visible} if visible else {}
        injection = PluginInjection(variables, mounts=mounts)
        env = {"HOSTNAME": "web", "GREETING": "hello", **injection.env}
        return self.runtime.start(ContainerStart(pod, container, 0, argv, env, injection))

    async def run(
        self, *argv: str, visible: str = "", given: bytes = b"", mounts: tuple[str, ...] = ()
    ) -> tuple[int, str, str]:
        """Exit code, standard output and error of a command executed in a container that sleeps."""
        stdio = Memory(given)
        container = self.start("sleep", "infinity", visible=visible, mounts=mounts)
        code = await self.runtime.execute(container, argv, stdio, interactive=False)
        return code, stdio.out.decode(), stdio.err.decode()

    async def main(self, *argv: str, **options: Any) -> tuple[int | None, str]:
        """Exit code (None while it runs) and log of a command that is a container's own."""
        container = self.start(*argv, **options)
        await self.clock.settle()
        return container.exit_code, b"".join(line.text for line in container.log.since(0)).decode()
