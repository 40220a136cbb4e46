"""The pretended container runtime: a container is an asyncio task that runs a Program.

Two deliberate differences from a real node: a program that does not care about SIGTERM ends at once, as if
the container had an init process (without one the kernel drops the signal and the grace period passes); and
files are kept in memory, none of them an image's.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from tonnage.ports.clock import Clock
from tonnage.ports.node import DeviceBackend
from tonnage.twin.kubelet.containers.compute_turns import Work
from tonnage.twin.kubelet.containers.files import NODE_BYTES, FileError, MemoryVolume, Space, volume_in
from tonnage.twin.kubelet.containers.images import full_image, image_bytes, pull_problem
from tonnage.twin.kubelet.containers.logs import ContainerLog
from tonnage.twin.kubelet.containers.runtime_port import (
    ContainerContext,
    ContainerLoads,
    ContainerStart,
    ExecError,
    ImageError,
    Program,
    RunningContainer,
    StartError,
    Stdio,
)
from tonnage.twin.kubelet.programs.image_programs import Programs, command_name

_LOG: Final = logging.getLogger(__name__)
SIGTERM_EXIT: Final = 143
SIGKILL_EXIT: Final = 137
_STDIN_PIECES: Final = 1024


class _ContainerStdio:
    """Standard streams of a container's main process: output goes to the log, input comes from `attach`."""

    def __init__(self, log: ContainerLog, work: Work, *, has_stdin: bool) -> None:
        self._log = log
        self._work = work
        self._input: asyncio.Queue[bytes] | None = asyncio.Queue(_STDIN_PIECES) if has_stdin else None

    async def read(self) -> bytes:
        return await self._input.get() if self._input is not None else b""

    def write(self, content: bytes) -> None:
        self._work.moved(len(content))
        self._log.write("stdout", content)

    def write_error(self, content: bytes) -> None:
        self._work.moved(len(content))
        self._log.write("stderr", content)

    def feed(self, content: bytes) -> None:
        """Give the program input; an empty piece ends it. What nobody reads is dropped past a limit."""
        if self._input is not None and not self._input.full():
            self._input.put_nowait(content)


class _Attached:
    """The writing end of a container's standard input."""

    def __init__(self, stdio: _ContainerStdio) -> None:
        self._stdio = stdio

    async def read(self) -> bytes:
        return b""

    def write(self, content: bytes) -> None:
        self._stdio.feed(content)

    def write_error(self, content: bytes) -> None:
        """Nothing: input has one channel."""


class PretendedRuntime:
    """Containers of one node. It outlives restarts of the kubelet, as containerd does.

    Its programs see the node's `devices`, as far as they were injected; `loads` is what they do to these.
    """

    def __init__(
        self,
        node_name: str,
        node_root: Path,
        clock: Clock,
        programs: Programs,
        devices: DeviceBackend,
        loads: ContainerLoads | None = None,
    ) -> None:
        self._node_name = node_name
        self._node_root = node_root
        self._clock = clock
        self._programs = programs
        self._devices = devices
        self._loads = loads
        self.space = Space(NODE_BYTES, programs.space)
        self._images: dict[str, int] = {}
        self._containers: dict[str, list[RunningContainer]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stdio: dict[str, _ContainerStdio] = {}
        self._volumes: dict[str, MemoryVolume] = {}

    def images(self) -> Mapping[str, int]:
        return self._images

    async def pull(self, image: str) -> int:
        problem = pull_problem(image)
        if problem and not self._programs.has_image(image):
            raise ImageError(problem)
        return self._images.setdefault(full_image(image), image_bytes(image))

    def start(self, config: ContainerStart) -> RunningContainer:
        uid = config.pod.metadata.uid
        identity = f"{self._node_name}/{uid}/{config.container.name}/{config.attempt}"
        container_id = hashlib.sha256(identity.encode()).hexdigest()
        log, work = ContainerLog(self._clock.now, self.space), Work(self._programs.turns)
        try:
            config.files.start(self.space, work.moved)
        except FileError as error:
            raise StartError(f"failed to create containerd container: {str(error).lower()}") from None
        container = RunningContainer(container_id, config, self._clock.now(), log, work)
        stdio = _ContainerStdio(log, work, has_stdin=config.container.stdin)
        program = self._programs.for_container(config.container.image, config.argv)
        context = self._context(container, config.argv, stdio, interactive=config.container.tty)
        context = replace(context, serving=container.serving, ports=container.ports, main=True)
        program = program if self._loads is None else self._loads.around(program, context)
        self._forget_older(uid, container.name)
        self._containers.setdefault(uid, []).append(container)
        self._stdio[container_id] = stdio
        self._tasks[container_id] = asyncio.create_task(
            self._run(container, program, context),
            name=f"container {config.pod.metadata.name}/{container.name}",
        )
        return container

    def containers(self, pod_uid: str) -> list[RunningContainer]:
        return list(self._containers.get(pod_uid, ()))

    def volume(self, name: str) -> MemoryVolume:
        if name not in self._volumes:
            self._volumes[name] = MemoryVolume(space=self.space)
        return self._volumes[name]

    def pods(self) -> frozenset[str]:
        return frozenset(self._containers)

    async def stop(self, container: RunningContainer, grace_s: float) -> None:
        if not container.running:
            return
        task = self._tasks[container.id]
        task.cancel()
        waits = [
            asyncio.ensure_future(container.exited.wait()),
            asyncio.ensure_future(self._clock.sleep(grace_s)),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if container.running:
            task.cancel()
            self._finish(container, SIGKILL_EXIT)

    def remove_pod(self, pod_uid: str) -> None:
        for name in [name for name in self._volumes if name.startswith(volume_in(pod_uid))]:
            self._volumes.pop(name).clear()
        for container in self._containers.pop(pod_uid, ()):
            self._forget(container)
            task = self._tasks.pop(container.id, None)
            if task is not None and container.running:
                task.cancel()
                self._finish(container, SIGKILL_EXIT)

    def _forget_older(self, pod_uid: str, name: str) -> None:
        """Before a container starts, keep only the one before it, as a kubelet does."""
        ended = [
            candidate
            for candidate in self._containers.get(pod_uid, ())
            if candidate.name == name and not candidate.running
        ]
        for container in ended[:-1]:
            self._containers[pod_uid].remove(container)
            self._forget(container)

    def _forget(self, container: RunningContainer) -> None:
        self._stdio.pop(container.id, None)
        container.config.files.clear()
        container.log.forget()

    async def execute(
        self, container: RunningContainer, argv: Sequence[str], stdio: Stdio, *, interactive: bool
    ) -> int:
        if not container.running:
            raise ExecError("cannot exec in a stopped container: unknown")
        context = self._context(container, tuple(argv), stdio, interactive=interactive)
        program = self._programs.command(context)
        if program is None:
            name = argv[0] if argv else ""
            why = (
                f'exec: "{name}": stat {name}: no such file or directory'
                if "/" in name
                else f'exec: "{name}": executable file not found in $PATH'
            )
            raise ExecError(
                "OCI runtime exec failed: exec failed: unable to start container process: "
                + why
                + ": unknown"
            )
        run = asyncio.ensure_future(program(context))
        gone = asyncio.ensure_future(container.exited.wait())
        try:
            await asyncio.wait({run, gone}, return_when=asyncio.FIRST_COMPLETED)
            return await run if run.done() else SIGKILL_EXIT
        except Exception as error:
            return _failed(container, context, error)
        finally:
            run.cancel()
            gone.cancel()

    def attach(self, container: RunningContainer) -> Stdio | None:
        stdio = self._stdio.get(container.id)
        return _Attached(stdio) if stdio is not None and container.config.container.stdin else None

    async def shutdown(self) -> None:
        """End every container at once, as when the machine is switched off."""
        tasks = list(self._tasks.values())
        for uid in list(self._containers):
            self.remove_pod(uid)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _context(
        self, container: RunningContainer, argv: tuple[str, ...], stdio: Stdio, *, interactive: bool
    ) -> ContainerContext:
        config, loads = container.config, self._loads
        context = ContainerContext(
            config.pod,
            config.container,
            self._node_name,
            self._node_root,
            argv,
            config.env,
            self._clock,
            self._devices,
            config.injection,
            stdio,
            interactive,
            config.token,
            files=config.files,
            work=container.work,
        )
        return context if loads is None else replace(context, load_report=partial(loads.report, context))

    async def _run(self, container: RunningContainer, program: Program, context: ContainerContext) -> None:
        code = SIGTERM_EXIT
        try:
            code = await program(context) & 0xFF
        except Exception as error:
            code = _failed(container, context, error)
        finally:
            self._finish(container, code)

    def _finish(self, container: RunningContainer, code: int) -> None:
        if container.running:
            container.exit_code = code
            container.finished_at = self._clock.now()
            container.log.close()
            container.exited.set()
            self._tasks.pop(container.id, None)


def _failed(container: RunningContainer, context: ContainerContext, error: Exception) -> int:
    """The exit status of a program that raised an error.

    Anything may be wired in, such as the real agent: its crash is its container's, not the twin's, nor that
    of who asked for a command.
    """
    name = command_name(context)
    if isinstance(error, RecursionError):  # a script that runs itself; the trace would be as deep
        context.stdio.write_error(f"{name}: nested too deeply\n".encode())
        return 2
    _LOG.error(
        "program failed: pod=%s container=%s", context.pod.metadata.name, container.name, exc_info=error
    )
    context.stdio.write_error(f"{name}: {error}\n".encode())
    return 1
