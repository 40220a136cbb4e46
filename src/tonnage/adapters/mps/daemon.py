"""NVIDIA's MPS control daemons as child processes of the agent.

Source: NVIDIA's documentation of MPS and the manual of nvidia-cuda-mps-control, driver 550.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tonnage.adapters.child_process import ChildProcess
from tonnage.adapters.mps.files import MpsFiles, end_left
from tonnage.adapters.mps.program import CONTROL, ask_program
from tonnage.adapters.vendors.driver_thread import DriverThread, OverdueError
from tonnage.model.devices.mps import PIPE_VARIABLE, MpsDaemon
from tonnage.model.errors import ClusterError, HardwareError, Problem

T = TypeVar("T")

_FOLDERS: Final = ("usr/bin", "usr/local/bin", "usr/local/nvidia/bin", "bin")
_QUESTION: Final = "get_default_active_thread_percentage"
_STEP_S: Final = 3.0
"""Longer than a command may take: only one that cannot even be ended makes the thread overdue."""
_READY_S: Final = 10.0
_LOOK_S: Final = 0.05
_QUIT_S: Final = 1
"""Seconds that servers have to end when the daemon is told to, then what is left is killed."""
_SLACK: Final = 0.5
_KEPT: Final = ("PATH", "LD_LIBRARY_PATH")


@dataclass(slots=True)
class _Kept:
    """What belongs to one resource: a thread for what may hang, and the daemon while there is one."""

    thread: DriverThread
    child: ChildProcess | None = None
    alarm: int = -1
    """A descriptor that can be read once the child has ended; -1 for none."""


class ControlDaemons:
    """`MpsDaemons` by nvidia-cuda-mps-control, as the container runtime or the twin put it below `root`.

    The daemon runs in the foreground: so its end is known at once, and this process's end is its own. One of
    an earlier agent that was killed is ended by its name, pipe folder and process id. Containers have the
    pipe folder mounted, so it stays the same folder whatever happens to the daemon.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kept: dict[str, _Kept] = {}
        self._wake: Callable[[], None] = lambda: None

    async def start(self, daemon: MpsDaemon) -> None:
        program = self._program()
        files = MpsFiles(self._root, daemon)
        kept = self._kept.setdefault(daemon.resource, _Kept(DriverThread("mps", deadline_s=_STEP_S)))
        await self._end(kept)
        await self._run(kept, "clear what an earlier daemon left", lambda: end_left(files.pipe))
        await self._run(kept, "make its folders", files.make)
        await self._alone(kept, program, files)
        await self._run(kept, "clear its folder", files.clear)
        log, environment = files.log / "control.log", _own(files, daemon)
        try:
            kept.child = ChildProcess(program, ["-f"], log=log, environment=environment)
        except OSError as error:
            raise HardwareError(Problem(f"{CONTROL} cannot be started", str(log), str(error))) from None
        try:
            await self._until_it_answers(kept, program, files)
            await self._limit(kept, program, files, daemon)
            await self._run(kept, "mark it as started", files.mark_started)
            self._listen(kept, kept.child.pid)
        except BaseException:
            await self._end(kept)
            raise

    async def ask(self, daemon: MpsDaemon) -> None:
        kept, files = self._kept[daemon.resource], MpsFiles(self._root, daemon)
        if why := self.ended(daemon):
            raise HardwareError(Problem(why))
        await self._command(kept, self._program(), files, _QUESTION)
        await self._run(kept, "look after its logs", files.shorten_logs)

    def ended(self, daemon: MpsDaemon) -> str:
        kept = self._kept.get(daemon.resource)
        if kept is None or kept.child is None:
            return f"{CONTROL} is not running"
        return _end_of(kept.child)

    def watch(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    async def stop(self, daemon: MpsDaemon) -> None:
        kept, files = self._kept.get(daemon.resource), MpsFiles(self._root, daemon)
        kept = kept or _Kept(DriverThread("mps", deadline_s=_STEP_S))
        self._mute(kept)
        try:
            if not self.ended(daemon):
                with contextlib.suppress(HardwareError):  # it is killed if it does not listen
                    await self._command(kept, self._program(), files, f"quit -t {_QUIT_S}")
            await self._end(kept)
            await self._run(kept, "end what it left", lambda: end_left(files.pipe))
            await self._run(kept, "clear its folder", files.clear)
        finally:
            kept.thread.close()
            self._kept.pop(daemon.resource, None)

    async def show_ready(self, root: str, *, ready: bool) -> None:
        await asyncio.to_thread(MpsFiles.mark_ready, self._root, root, ready=ready)

    async def close(self) -> None:
        for kept in self._kept.values():
            await self._end(kept)
            kept.thread.close()
        self._kept.clear()

    def _program(self) -> Path:
        path = os.pathsep.join(str(self._root / folder) for folder in _FOLDERS)
        found = shutil.which(CONTROL, path=path)
        if found is None:
            raise HardwareError(
                Problem(
                    f"{CONTROL} is not there",
                    str(self._root / _FOLDERS[0]),
                    "the NVIDIA container runtime puts it into containers with the driver capability compute",
                    "set the chart's mps.root, which asks for it; the driver must have the program",
                )
            )
        return Path(found)

    async def _alone(self, kept: _Kept, program: Path, files: MpsFiles) -> None:
        """Raise HardwareError when a daemon of somebody else serves the folder."""
        if not files.socket.exists():
            return
        try:
            await self._command(kept, program, files, _QUESTION)
        except HardwareError:
            return
        raise HardwareError(
            Problem(
                "another MPS control daemon serves this folder",
                str(files.pipe),
                "Tonnage did not start it",
                "remove NVIDIA's mps-control-daemon from this node, or choose another flags.mpsRoot",
            )
        )

    async def _until_it_answers(self, kept: _Kept, program: Path, files: MpsFiles) -> None:
        until = time.monotonic() + _READY_S
        while True:
            assert kept.child is not None
            if why := _end_of(kept.child):
                raise HardwareError(Problem(f"{CONTROL} does not stay", str(files.pipe), why))
            try:
                await self._command(kept, program, files, _QUESTION)
            except HardwareError:
                if time.monotonic() > until:
                    raise
            else:
                return
            await asyncio.sleep(_LOOK_S)

    async def _limit(self, kept: _Kept, program: Path, files: MpsFiles, daemon: MpsDaemon) -> None:
        """Set what a client may use, and see that it is so: a daemon without limits must not serve."""
        for place, device in enumerate(daemon.devices):
            if device.limit_mib:
                limit = f"set_default_device_pinned_mem_limit {place} {device.limit_mib}M"
                await self._command(kept, program, files, limit)
        wanted = daemon.threads_percent
        await self._command(kept, program, files, f"set_default_active_thread_percentage {wanted}")
        said = await self._command(kept, program, files, _QUESTION)
        try:
            same = abs(float(said) - wanted) < _SLACK
        except ValueError:
            same = False
        if not same:
            what = f"{CONTROL} did not take the limit of {wanted} % of threads"
            raise HardwareError(Problem(what, str(files.pipe), f"it says {said[:60]!r}"))

    async def _command(self, kept: _Kept, program: Path, files: MpsFiles, command: str) -> str:
        environment = {**_inherited(), PIPE_VARIABLE: str(files.pipe)}
        word = command.partition(" ")[0]
        return await self._run(kept, word, lambda: ask_program(program, command, environment))

    async def _run(self, kept: _Kept, what: str, function: Callable[[], T]) -> T:
        try:
            return await kept.thread.call(what, function)
        except OSError as error:
            raise HardwareError(Problem(f"{CONTROL}: {what} failed", why=str(error))) from None
        except OverdueError as error:
            why = "a former command does not end; it is tried again once it does"
            raise HardwareError(Problem(f"{CONTROL} does not answer: {what}", why=why)) from error

    def _listen(self, kept: _Kept, pid: int) -> None:
        """Be told of its end; a kernel without such descriptors leaves that to who looks now and then."""
        with contextlib.suppress(OSError):
            kept.alarm = os.pidfd_open(pid)
            asyncio.get_running_loop().add_reader(kept.alarm, self._heard, kept)

    def _heard(self, kept: _Kept) -> None:
        self._mute(kept)
        self._wake()

    def _mute(self, kept: _Kept) -> None:
        if kept.alarm >= 0:
            asyncio.get_running_loop().remove_reader(kept.alarm)
            os.close(kept.alarm)
            kept.alarm = -1

    async def _end(self, kept: _Kept) -> None:
        """Kill the daemon, with the servers that it started."""
        self._mute(kept)
        child, kept.child = kept.child, None
        if child is None or _end_of(child):
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # it leads a group; nobody else can have its id yet
        await child.end(0.0)


def _end_of(child: ChildProcess) -> str:
    """Why it has ended, with its last words; empty while it runs."""
    try:
        child.check()
    except ClusterError as error:
        problem = error.problems[0]
        return "; ".join([problem.what, *problem.why.splitlines()])
    except OSError:  # somebody took its log away
        return f"{CONTROL} has ended"
    return ""


def _own(files: MpsFiles, daemon: MpsDaemon) -> dict[str, str]:
    """The daemon's environment: its own devices alone, so that it takes no other from anybody."""
    return {
        **_inherited(),
        PIPE_VARIABLE: str(files.pipe),
        "CUDA_MPS_LOG_DIRECTORY": str(files.log),
        "CUDA_VISIBLE_DEVICES": ",".join(device.uuid for device in daemon.devices),
    }


def _inherited() -> dict[str, str]:
    return {name: os.environ[name] for name in _KEPT if name in os.environ}
