"""A control group of the suite's own: the parent of all pods of a genuine node."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_TOP: Final = Path("/sys/fs/cgroup")


def make_cgroup(name: str) -> None:
    """In every hierarchy that the machine has: one (version 2) or one for each controller."""
    for top in _hierarchies():
        own = top / name
        own.mkdir(exist_ok=True)
        for file in (
            "cpuset.cpus",
            "cpuset.mems",
        ):  # empty in a new group of version 1: nothing could run there
            if (own / file).exists() and (top / file).exists():
                (own / file).write_text((top / file).read_text())


def remove_cgroup(name: str) -> bool:
    """Remove what has no process any more; whether nothing is left."""
    left = False
    for top in _hierarchies():
        for folder, _, _ in os.walk(top / name, topdown=False):
            try:
                Path(folder).rmdir()
            except OSError:
                left = True
    return not left


def _hierarchies() -> Iterator[Path]:
    if (_TOP / "cgroup.controllers").exists():
        yield _TOP
        return
    yield from (one for one in _TOP.iterdir() if one.is_dir() and not one.is_symlink())


def processes_in(name: str) -> Iterator[tuple[str, int]]:
    """(path below the group, process id) of every process of the group, as one hierarchy has them."""
    top = next(one for one in _hierarchies() if (one / name).is_dir()) / name
    for folder, _, _ in os.walk(top):
        try:
            ids = Path(folder, "cgroup.procs").read_text().split()
        except OSError:  # the group is just being removed
            continue
        yield from ((os.path.relpath(folder, top), int(pid)) for pid in ids)
