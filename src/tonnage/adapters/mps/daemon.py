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
from tonnage.model.errors import ClusterError, HardwareError, Problem, words_of

T = TypeVar("T")

_FOLDERS: Final = ("usr/bin", "usr/local/bin", "usr/local/nvidia/bin", "bin")
_MULTI_USER: Final = "-multiuser-server"
_QUESTION: Final = "get_default_active_thread_percentage"
_STEP_S: Final = 3.0
"""Longer than a command may take: only one that cannot even be ended makes the thread overdue."""
_READY_S: Final = 10.0
_LOOK_S: Final = 0.05
_QUIT_S: Final = 1
"""Seconds that servers have to end when the daemon is told to, then what is left is killed."""
_SLACK: Final = 0.5
_PASSED_ON: Final = ("PATH", "LD_LIBRARY_PATH")


@dataclass(slots=True)
class _DaemonSlot:
    """What belongs to one resource: a thread for what may hang, and the daemon while there is one."""

    thread: DriverThread
    child: ChildProcess | None = None
    alarm: int = -1
    """A descriptor that can be read once the child has ended; -1 for none."""


class ControlDaemons:
    """`MpsDaemons` by nvidia-cuda-mps-control, as the container runtime or the twin put it below `root`.

    The daemon runs in the foreground: so its end is known at once, and this process's end is its own. One of
    an earlier agent that was killed is ended by its name, pipe folder and process id. Containers have the
    pipe folder mounted, so it stays the same folder whatever happens to the daemon or
    the agent. A claim's goes with the claim.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._slots: dict[str, _DaemonSlot] = {}
        self._wake: Callable[[], None] = lambda: None

    async def start(self, daemon: MpsDaemon) -> None:
        program = self._program()
        files = MpsFiles(self._root, daemon)
        slot = self._slots.setdefault(daemon.resource, _DaemonSlot(DriverThread("mps", deadline_s=_STEP_S)))
        await self._end(slot)
        await self._run(slot, "remove files of an earlier daemon", lambda: end_left(files.pipe))
        await self._run(slot, "create its folders", files.make)
        await self._alone(slot, program, files)
        await self._run(slot, "clear its folder", files.clear)
        log, environment = files.log / "control.log", _own(files, daemon)
        try:
            options = ["-f", *([_MULTI_USER] if daemon.multi_user else [])]
            slot.child = ChildProcess(program, options, log=log, environment=environment)
        except OSError as error:
            raise HardwareError(Problem(f"{CONTROL} cannot be started", str(log), words_of(error))) from None
        try:
            await self._until_it_answers(slot, program, files)
            await self._limit(slot, program, files, daemon)
            await self._run(slot, "mark it as started", files.mark_started)
            self._listen(slot, slot.child.pid)
        except BaseException:
            await self._end(slot)
            raise

    async def ask(self, daemon: MpsDaemon) -> None:
        slot, files = self._slots[daemon.resource], MpsFiles(self._root, daemon)
        if why := self.ended(daemon):
            raise HardwareError(Problem(why))
        await self._command(slot, self._program(), files, _QUESTION)
        await self._run(slot, "rotate its logs", files.shorten_logs)

    def ended(self, daemon: MpsDaemon) -> str:
        slot = self._slots.get(daemon.resource)
        if slot is None or slot.child is None:
            return f"{CONTROL} is not running"
        return _end_of(slot.child)

    def watch(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    async def stop(self, daemon: MpsDaemon, *, over: bool = False) -> None:
        slot, files = self._slots.get(daemon.resource), MpsFiles(self._root, daemon)
        slot = slot or _DaemonSlot(DriverThread("mps", deadline_s=_STEP_S))
        self._mute(slot)
        try:
            if not self.ended(daemon):
                with contextlib.suppress(HardwareError):  # it is killed if it does not listen
                    await self._command(slot, self._program(), files, f"quit -t {_QUIT_S}")
            await self._end(slot)
            await self._run(slot, "end its remaining processes", lambda: end_left(files.pipe))
            await self._run(slot, "clear its folder", files.remove if over else files.clear)
        finally:
            slot.thread.close()
            self._slots.pop(daemon.resource, None)

    async def show_ready(self, root: str, *, ready: bool) -> None:
        await asyncio.to_thread(MpsFiles.mark_ready, self._root, root, ready=ready)

    async def close(self) -> None:
        for slot in self._slots.values():
            await self._end(slot)
            slot.thread.close()
        self._slots.clear()

    def _program(self) -> Path:
        path = os.pathsep.join(str(self._root / folder) for folder in _FOLDERS)
        program = shutil.which(CONTROL, path=path)
        if program is None:
            raise HardwareError(
                Problem(
                    f"{CONTROL} is missing",
                    str(self._root / _FOLDERS[0]),
                    "the NVIDIA container runtime puts it into containers with the driver capability compute",
                    "set the chart's mps.root, which requests it, and use a driver that has the program",
                )
            )
        return Path(program)

    async def _alone(self, slot: _DaemonSlot, program: Path, files: MpsFiles) -> None:
        """Raise HardwareError when a daemon of somebody else serves the folder."""
        if not files.socket.exists():
            return
        try:
            await self._command(slot, program, files, _QUESTION)
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

    async def _until_it_answers(self, slot: _DaemonSlot, program: Path, files: MpsFiles) -> None:
        until = time.monotonic() + _READY_S
        while True:
            assert slot.child is not None
            if why := _end_of(slot.child):
                raise HardwareError(Problem(f"{CONTROL} ended at once", str(files.pipe), why))
            try:
                await self._command(slot, program, files, _QUESTION)
            except HardwareError:
                if time.monotonic() > until:
                    raise
            else:
                return
            await asyncio.sleep(_LOOK_S)

    async def _limit(self, slot: _DaemonSlot, program: Path, files: MpsFiles, daemon: MpsDaemon) -> None:
        """Set what a client may use, and see that it is so: a daemon without limits must not serve."""
        for place, device in enumerate(daemon.devices):
            if device.limit_mib:
                limit = f"set_default_device_pinned_mem_limit {place} {device.limit_mib}M"
                await self._command(slot, program, files, limit)
        percent = daemon.threads_percent
        await self._command(slot, program, files, f"set_default_active_thread_percentage {percent}")
        answer = await self._command(slot, program, files, _QUESTION)
        try:
            same = abs(float(answer) - percent) < _SLACK
        except ValueError:
            same = False
        if not same:
            problem = f"{CONTROL} did not take the limit of {percent} % of threads"
            raise HardwareError(Problem(problem, str(files.pipe), f"it says {answer[:60]!r}"))

    async def _command(self, slot: _DaemonSlot, program: Path, files: MpsFiles, command: str) -> str:
        environment = {**_inherited(), PIPE_VARIABLE: str(files.pipe)}
        word = command.partition(" ")[0]
        return await self._run(slot, word, lambda: ask_program(program, command, environment))

    async def _run(self, slot: _DaemonSlot, action: str, function: Callable[[], T]) -> T:
        try:
            return await slot.thread.call(action, function)
        except OSError as error:
            raise HardwareError(Problem(f"{CONTROL}: {action} failed", why=words_of(error))) from None
        except OverdueError as error:
            why = "an earlier command has not ended; Tonnage tries again once it has"
            raise HardwareError(Problem(f"{CONTROL} does not answer: {action}", why=why)) from error

    def _listen(self, slot: _DaemonSlot, pid: int) -> None:
        """Be told of its end; a kernel without such descriptors leaves that to who looks now and then."""
        with contextlib.suppress(OSError):
            slot.alarm = os.pidfd_open(pid)
            asyncio.get_running_loop().add_reader(slot.alarm, self._on_end, slot)

    def _on_end(self, slot: _DaemonSlot) -> None:
        self._mute(slot)
        self._wake()

    def _mute(self, slot: _DaemonSlot) -> None:
        if slot.alarm >= 0:
            asyncio.get_running_loop().remove_reader(slot.alarm)
            os.close(slot.alarm)
            slot.alarm = -1

    async def _end(self, slot: _DaemonSlot) -> None:
        """Kill the daemon, with the servers that it started."""
        self._mute(slot)
        child, slot.child = slot.child, None
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
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
