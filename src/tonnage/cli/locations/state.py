"""What `up` leaves in its state folder while it runs, and how others find and end it.

    lock          held (flock) as long as the cluster runs; holds the process id, for people and for `down`
    cluster.json  where the cluster is, once it can be used
    kubeconfig    mode 0600
    up.log        what a detached `up` says
    runtime       the folder of its sockets, which has another name where somebody else took the usual one
    cluster.db    the cluster itself, where `up --state` keeps it, with SQLite's own files beside it
    scenario.yaml the fleet that it was started with last
    control-plane what the processes of a genuine control plane need and say; the log of one that failed stays

The kernel frees the lock when the process dies, however it dies; a free lock means that the rest is stale.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shlex
import shutil
import stat
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, cast

from tonnage.model.errors import ConfigError, HardwareError, Problem, words_of
from tonnage.model.json import parsed_json

_PLANE: Final = "control-plane"
_DATABASE: Final = "cluster.db"
_SCENARIO: Final = "scenario.yaml"
_SAVED_FILES: Final = (_DATABASE, f"{_DATABASE}-wal", f"{_DATABASE}-shm", _SCENARIO)
"""What outlives the process."""
RUNTIME: Final = "runtime"
_OWN: Final = ("cluster.json", "kubeconfig", "up.log", "lock", RUNTIME, _PLANE)

EngineName = Literal["twin", "kubernetes"]


@dataclass(frozen=True, slots=True)
class Running:
    """A cluster that runs. `since` is ISO 8601, UTC."""

    pid: int
    scenario: str
    nodes: int
    server: str
    kubeconfig: str
    since: str
    engine: EngineName = "twin"


class StateFolder:
    """One state folder. `hold` makes this process the owner of the cluster in it."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self._lock: int | None = None

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def log(self) -> Path:
        return self.path / "up.log"

    @property
    def control_plane(self) -> Path:
        return self.path / _PLANE

    @property
    def database(self) -> Path:
        return self.path / _DATABASE

    @property
    def scenario(self) -> Path:
        return self.path / _SCENARIO

    def keep_scenario(self, text: str) -> None:
        """Remember the fleet for the next start."""
        write_own(self.scenario, text)

    def hold(self) -> None:
        """Own the folder until `release`; what a killed process left in it is removed.

        Raises:
            ConfigError: another process owns it, or the folder is somebody else's.
            HardwareError: it cannot be made or written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            foreign = sorted(
                entry.name for entry in self.path.iterdir() if entry.name not in (*_OWN, *_SAVED_FILES)
            )
            if foreign:
                raise self._foreign(foreign)
            self._lock = self._acquire()
            self._clear(keep=("lock", "up.log", RUNTIME))
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            self.release()
            raise unusable(self.path, error) from error

    def _acquire(self) -> int:
        """Descriptor of the locked file. Others lock it for a moment to look, or remove it as they leave."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        for _ in range(100):
            descriptor = os.open(self.path / "lock", flags, 0o600)
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_ino == (self.path / "lock").stat().st_ino:
                    return descriptor
            os.close(descriptor)
            if self.owner() is not None:
                break
        raise self._already_running()

    def publish(self, running: Running, kubeconfig: str) -> None:
        """Say where the cluster is; the kubeconfig is readable by its owner alone."""
        write_own(self.kubeconfig, kubeconfig)
        # Last: who finds this file finds the kubeconfig whole.
        write_own(self.path / "cluster.json", json.dumps(asdict(running)))

    def release(self) -> None:
        """Leave nothing behind: the files, the lock, and the folder when it is empty."""
        if self._lock is None:
            return
        self._clear(keep=("lock", _PLANE))
        # The lock goes last: until then nobody else takes the folder.
        with contextlib.suppress(OSError):
            (self.path / "lock").unlink()
            self.path.rmdir()
        os.close(self._lock)
        self._lock = None

    def owner(self) -> int | None:
        """Process id of the owner; 0 when it has not said yet; None when nobody owns the folder."""
        try:
            descriptor = os.open(self.path / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unusable(self.path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(descriptor, 32, 0).strip()
            return int(text) if text.isdigit() else 0
        finally:
            os.close(descriptor)
        return None

    def running(self) -> Running | None:
        """The cluster that runs here and can be used, or None."""
        if self.owner() is None:
            return None
        try:
            content = cast(Any, parsed_json((self.path / "cluster.json").read_text(encoding="utf-8")))
            return Running(**{f.name: content[f.name] for f in fields(Running) if f.name in content})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                Problem(
                    "unreadable",
                    str(self.path / "cluster.json"),
                    words_of(error),
                    "run tonnage down, then tonnage up",
                )
            ) from error

    def stale(self) -> bool:
        """Whether a process that is gone left its files."""
        return self.owner() is None and any((self.path / name).exists() for name in _OWN)

    def _clear(self, keep: tuple[str, ...]) -> None:
        for name in _OWN:
            if name in keep:
                continue
            if name == _PLANE:
                shutil.rmtree(self.control_plane, ignore_errors=True)
            else:
                (self.path / name).unlink(missing_ok=True)

    def _already_running(self) -> ConfigError:
        pid = self.owner() or 0
        process = f"process {pid}" if pid else "another process"
        return ConfigError(
            Problem(
                "an embedded cluster already runs here",
                str(self.path),
                f"{process} uses it",
                f"use it: export KUBECONFIG={shlex.quote(str(self.kubeconfig))}\n"
                "or end it: tonnage down\n"
                "or give the second cluster its own folder: --state DIR",
            )
        )

    def _foreign(self, names: list[str]) -> ConfigError:
        shown = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
        return ConfigError(
            Problem(
                "not a state folder of Tonnage",
                str(self.path),
                f"it holds {shown}",
                "name an empty or a new folder",
            )
        )


def private_folder(path: Path) -> Path:
    """Make a folder that nobody else can enter, or make sure that it is one.

    Raises:
        HardwareError: it cannot be made, or belongs to somebody else.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise PermissionError(errno.EPERM, "belongs to another user, or is a link", str(path))
        path.chmod(0o700)
    except OSError as error:
        raise unusable(path, error) from error
    return path


def write_own(path: Path, text: str) -> None:
    """Replace a file at once, readable by its owner alone. It need not survive a crash: it would be stale."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)


def unusable(path: Path, error: OSError) -> HardwareError:
    """A folder that the system refuses, with the remedy that fits the reason."""
    remedy = {
        errno.EACCES: "choose a folder that you can write to",
        errno.EPERM: "remove it, or choose another folder",
        errno.ENOSPC: "free some space, or choose another folder",
        errno.EROFS: "choose a folder that you can write to",
        errno.EDQUOT: "free some space, or choose another folder",
    }.get(error.errno or 0, "choose another folder")
    return HardwareError(
        Problem("the folder cannot be used", str(path), error.strerror or str(error), remedy)
    )
