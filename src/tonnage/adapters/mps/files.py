"""The folders that MPS daemons share with containers, and processes that a killed agent left in them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tonnage.adapters.host_paths import open_to_others
from tonnage.model.devices.mps import PIPE_VARIABLE, MpsDaemon, mps_folder
from tonnage.model.errors import HardwareError, Problem, words_of

_SOCKET_PATH_BYTES: Final = 107
_LONGEST_LOG: Final = 4 << 20
_ANYBODY: Final = 0o755
"""A daemon of root serves each user by a server of that user's, which must get at its pipes. None may write:
who replaces the daemon's socket speaks to everybody's programs."""
_SHARED: Final = 0o1777
_PROCESSES: Final = Path("/proc")
_NAME: Final = b"nvidia-cuda-mps"
"""What the kernel keeps of the names of daemon and server."""
_ENDING_S: Final = 1.0
_LOOK_S: Final = 0.01
_STARTED, _READY = ".started", ".ready"


class MpsFiles:
    """A daemon's files below `root`, which stands before every path of the node. Everything blocks."""

    def __init__(self, root: Path, daemon: MpsDaemon) -> None:
        self._node = root
        self._root = _below(root, daemon.root)
        self._folder = _below(root, daemon.folder)
        self._shm = _below(root, mps_folder(daemon.root, "shm"))
        self.pipe = self._folder / "pipe"
        self.log = self._folder / "log"
        self.socket = self.pipe / "control"

    def make(self) -> None:
        """The folders are there, for every user to enter and root alone to write. Raises HardwareError."""
        if len(os.fsencode(self.socket)) > _SOCKET_PATH_BYTES:
            why = f"a Unix socket's path has at most {_SOCKET_PATH_BYTES} bytes"
            raise HardwareError(
                Problem(
                    "the path of MPS is too long", str(self.socket), why, "choose a shorter flags.mpsRoot"
                )
            )
        try:
            for folder in (*reversed(self._root.parents), self._root):  # parents=True takes the umask's mode
                if not folder.exists():
                    folder.mkdir(mode=_ANYBODY, exist_ok=True)
            for folder in (self._folder.parent, self._folder, self.pipe, self.log):
                folder.mkdir(mode=_ANYBODY, exist_ok=True)
                self._check_own(folder)
                folder.chmod(_ANYBODY)
            self._check_own(self._shm)
            if not self._shm.is_dir():
                self._shm.mkdir(exist_ok=True)  # all daemons share it, and may start together
                self._shm.chmod(_SHARED)
            _let_containers_in(self.pipe, self._node)
        except OSError as error:
            why = words_of(error)
            remedy = "mount the folder for the agent (mps.root of the chart)"
            raise HardwareError(
                Problem("a folder of MPS cannot be created", str(error.filename or self._folder), why, remedy)
            ) from None
        self._check_memory()
        if why := open_to_others(self._node, f"/{self.pipe.relative_to(self._node)}"):
            raise _not_own(self.pipe, why)

    @staticmethod
    def _check_own(folder: Path) -> None:
        """What is changed next is the folder itself, and none to which somebody's link leads."""
        if folder.is_symlink():
            raise _not_own(folder, f"it is a link to {str(folder.readlink())[:200]}")

    def clear(self) -> None:
        """Nothing is in the pipe folder any more, nor the mark. Containers have the folder itself mounted."""
        try:
            with contextlib.suppress(FileNotFoundError):
                for entry in self.pipe.iterdir():
                    entry.unlink() if entry.is_symlink() or not entry.is_dir() else shutil.rmtree(entry)
            (self._folder / _STARTED).unlink(missing_ok=True)
        except OSError as error:
            raise HardwareError(
                Problem("a folder of MPS cannot be cleared", str(self.pipe), words_of(error))
            ) from None

    def remove(self) -> None:
        """The daemon's folder is gone, with its logs."""
        try:
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(self._folder)
        except OSError as error:
            raise HardwareError(
                Problem("a folder of MPS cannot be removed", str(self._folder), words_of(error))
            ) from None

    def mark_started(self) -> None:
        """As NVIDIA's daemon does, for who looks at that."""
        (self._folder / _STARTED).touch()

    @staticmethod
    def mark_ready(node: Path, root: str, *, ready: bool) -> None:
        """Whether every daemon below the root serves, for who looks at that; what cannot be said is not."""
        mark = _below(node, root) / _READY
        with contextlib.suppress(OSError):
            mark.touch() if ready else mark.unlink(missing_ok=True)

    def shorten_logs(self) -> None:
        """Logs lie in memory, and daemons write a few lines for each question: long ones begin anew."""
        with contextlib.suppress(OSError):
            for file in self.log.iterdir():
                if file.lstat().st_size > _LONGEST_LOG:
                    os.truncate(file, 0)

    def _check_memory(self) -> None:
        """Clients have `shm` as their /dev/shm; where this process has one, it must be the same."""
        own = self._node / "dev/shm"
        if own.is_dir() and not own.samefile(self._shm):
            raise HardwareError(
                Problem(
                    f"{own} is not {self._shm}",
                    str(own),
                    "clients need it for the memory that they share with the MPS server",
                    f"mount {self._shm} there (mps.root of the chart does)",
                )
            )


def end_left(pipe: Path) -> None:
    """Kill daemons and servers of MPS that have this pipe folder, and see them gone. Blocks.

    Raises HardwareError: one does not end.
    """
    until = time.monotonic() + _ENDING_S
    while left := list(_processes(pipe)):
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > until:
            why = "it was killed and has not ended"
            raise HardwareError(
                Problem(f"process {left[0]} of an earlier MPS daemon is left", str(pipe), why)
            )
        time.sleep(_LOOK_S)


def _processes(pipe: Path) -> Iterator[int]:
    """Those by name and environment; a zombie has no environment."""
    setting = f"{PIPE_VARIABLE}={pipe}".encode()
    for folder in _PROCESSES.iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if (folder / "comm").read_bytes().startswith(_NAME) and setting in (
                folder / "environ"
            ).read_bytes().split(b"\0"):
                yield int(folder.name)


def _not_own(folder: Path, why: str) -> HardwareError:
    remedy = "let root alone own and write it, or choose another flags.mpsRoot"
    return HardwareError(
        Problem("a folder of MPS is open to other users than root", str(folder), why, remedy)
    )


def _below(node: Path, path: str) -> Path:
    return node / path.lstrip("/")


def _let_containers_in(folder: Path, node: Path) -> None:
    """Where SELinux is enforced, give the folder the type that containers may use. Raises OSError."""
    try:
        enforced = (node / "sys/fs/selinux/enforce").read_bytes() == b"1"
    except OSError:
        return
    if enforced:
        parts = os.getxattr(folder, "security.selinux").rstrip(b"\0").split(b":")
        label = b":".join([*parts[:2], b"container_file_t", *(parts[3:] or [b"s0"])])
        os.setxattr(folder, "security.selinux", label)
