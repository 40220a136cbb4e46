"""A genuine node: real kubelet, containerd and runc, in namespaces of their own."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import grpc

from support.node_root import CONTAINERD_SOCKET, PROGRAMS, NodeRoot, kubelet_flags
from support.own_cgroup import make_cgroup, remove_cgroup
from tonnage.adapters.child_process import ChildProcess
from tonnage.model.errors import ClusterError

NODE_NAME: Final = "node"
PATIENCE_S: Final = 240.0
_PAUSE_S: Final = 0.1
_NAMESPACES: Final = ("--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--propagation=private")
_ENVIRONMENT: Final = {"PATH": f"{PROGRAMS}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}


class GenuineNode:
    """Its processes are `containerd` and `kubelet`; `root` is its file system, `cgroup` its pods' parent.

    Everything on it ends with the process that started it.
    """

    def __init__(self, folder: Path, root: NodeRoot, cgroup: str) -> None:
        """`folder` is where its processes log."""
        self.root = root
        self._folder = folder
        self.cgroup = cgroup
        self._first: ChildProcess | None = None
        self._processes: dict[str, ChildProcess] = {}

    def boot(self, *, kubelet: bool = True) -> None:
        """Start the first process, then containerd and kubelet; without kubelet nobody but you makes pods."""
        make_cgroup(self.cgroup)
        self._first = first = ChildProcess(
            Path("/usr/bin/unshare"),
            [*_NAMESPACES, "/bin/sh", "-c", self.root.boot, "sh", str(self.root.path), NODE_NAME],
            log=self._folder / "boot.log",
            environment=_ENVIRONMENT,
        )
        until(lambda: _runs(first) and self.run("test", "-e", "/run/booted", check=False).returncode == 0)
        self.start("containerd")
        if kubelet:
            self.start("kubelet")

    def crash(self) -> None:
        """Everything on the node ends at once, as when the power goes; its disk keeps what it has."""
        if self._first is None:
            return
        for pid in _children(self._first.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in (self._first, *self._processes.values()):
            asyncio.run(process.end(PATIENCE_S))
        self._first = None
        self._processes.clear()
        until(lambda: remove_cgroup(self.cgroup))

    def start(self, program: str) -> None:
        """Start `containerd`, and wait until kubelet may, or `kubelet`."""
        flags = {"containerd": ["--config", "/etc/containerd.toml"], "kubelet": kubelet_flags(NODE_NAME)}
        process = ChildProcess(
            Path("/usr/bin/nsenter"),
            [*self._inside, str(PROGRAMS / program), *flags[program]],
            log=self._folder / f"{program}.log",
            environment=_ENVIRONMENT,
        )
        self._processes[program] = process
        if program == "containerd":
            until(lambda: _runs(process) and self._takes_pods())

    def _takes_pods(self) -> bool:
        """Whether containerd answers kubelet's questions: one that it refuses makes kubelet end."""
        pids = _children(self._processes["containerd"].pid)
        if not pids:
            return False
        with grpc.insecure_channel(f"unix:/proc/{pids[0]}/root{CONTAINERD_SOCKET}") as channel:
            try:
                channel.unary_unary("/runtime.v1.RuntimeService/Version", bytes, bytes)(b"", timeout=5)
            except grpc.RpcError:
                return False
        return True

    def end(self, program: str, number: int = signal.SIGTERM) -> None:
        """Send a signal to `containerd` or `kubelet` and wait until it is gone; containers go on."""
        process = self._processes.pop(program)
        for pid in _children(process.pid):
            os.kill(pid, number)
        until(lambda: not _runs(process))  # nsenter, which ends when its child has
        asyncio.run(process.end(0))

    def restart(self, program: str, number: int = signal.SIGTERM) -> None:
        """End it and start it again."""
        self.end(program, number)
        self.start(program)

    def pid(self, program: str) -> int:
        """Of `containerd` or `kubelet`, as the host counts."""
        return _children(self._processes[program].pid)[0]

    def check(self) -> None:
        """Nothing while all its processes run; raises ClusterError with the last words of one that ended."""
        for process in self._processes.values():
            process.check()

    def log(self, program: str) -> str:
        """What it has said since it started last."""
        return (self._folder / f"{program}.log").read_text(errors="replace")

    def run(
        self, *command: str, check: bool = True, standard_input: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command inside the node."""
        return subprocess.run(
            ["/usr/bin/nsenter", *self._inside, *command],
            input=standard_input,
            capture_output=True,
            env=_ENVIRONMENT,
            check=check,
            timeout=2 * PATIENCE_S,
        )

    def ctr(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """containerd's own client, in the namespace of Kubernetes."""
        return self.run("ctr", "--address", str(CONTAINERD_SOCKET), "-n", "k8s.io", *arguments, check=check)

    def import_image(self, archive: Path) -> None:
        """Load an OCI archive; pods use its name with `imagePullPolicy: Never`."""
        inside = f"/var/tmp/{archive.name}"
        shutil.copyfile(archive, self.root.at(inside))
        self.ctr("images", "import", inside)
        self.root.at(inside).unlink()

    @property
    def _inside(self) -> list[str]:
        """Options of nsenter."""
        assert self._first is not None
        first = (*_children(self._first.pid), 0)[0]
        return ["--target", str(first), "--mount", "--pid", "--uts", "--ipc"]


def until(holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Return once `holds`; AssertionError when that takes too long, its own if asking fails at the end."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            if holds():
                return
        except AssertionError:
            if time.monotonic() >= deadline:
                raise
        assert time.monotonic() < deadline, f"not within {patience_s:.0f} s"
        time.sleep(_PAUSE_S)


def _runs(process: ChildProcess) -> bool:
    try:
        process.check()
    except ClusterError:
        return False
    return True


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
