"""The folder of a genuine cluster, and what a run leaves that was killed: folders and control groups."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support.own_cgroup import groups, remove_cgroup

_TOP: Final = Path("/tmp")
_PREFIX: Final = "tn-node-"
"""Of folders; their control groups are named after them."""


@contextmanager
def own_folder() -> Iterator[Path]:
    """A new folder with a short path; the lock on it says that it is in use."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_TOP) as name, Path(name, "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(name)


def cgroup_of(folder: Path) -> str:
    """The name of the control group of the pods of the cluster in this folder."""
    return f"tonnage-{folder.name}"


def sweep() -> None:
    """Remove what nobody uses any more."""
    for folder in _TOP.glob(f"{_PREFIX}*"):
        try:
            with (folder / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (FileNotFoundError, BlockingIOError):
            continue  # another run has just made it, or has it
        shutil.rmtree(folder, ignore_errors=True)
    for name in groups(f"tonnage-{_PREFIX}*"):
        if not (_TOP / name.removeprefix("tonnage-")).exists():
            remove_cgroup(name)
