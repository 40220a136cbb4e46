"""A control group of the suite's own: the parent of all pods of a genuine node."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_TOP: Final = Path("/sys/fs/cgroup")


def make_cgroup(name: str) -> None:
    """In every hierarchy that the machine has: one (version 2) or one for each controller."""
    for top in _hierarchies():
        _hand_down(top)
        own = top / name
        own.mkdir(exist_ok=True)
        # Empty in a new group of version 1: nothing could run there.
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (own / file).exists() and (top / file).exists():
                (own / file).write_text((top / file).read_text())


def groups(pattern: str) -> set[str]:
    """The names of all groups of that pattern."""
    return {found.name for top in _hierarchies() for found in top.glob(pattern)}


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


def _hand_down(top: Path) -> None:
    """In version 2 a group has the controllers that the one above hands down; systemd would do so."""
    if _is_second(top):
        handed = (top / "cgroup.subtree_control").read_text().split()
        for controller in (top / "cgroup.controllers").read_text().split():
            if controller not in handed:
                with suppress(OSError):  # one that cannot be handed down; kubelet names those that it misses
                    (top / "cgroup.subtree_control").write_text(f"+{controller}")


def _hierarchies() -> Iterator[Path]:
    """Version 2 alone where the machine has only that; of both the older one, which runtimes then use."""
    if _is_second(_TOP):
        yield _TOP
        return
    for one in _TOP.iterdir():
        if (one / "cgroup.procs").exists() and not one.is_symlink() and not _is_second(one):
            yield one


def _is_second(top: Path) -> bool:
    return (top / "cgroup.controllers").exists()


def processes_in(name: str) -> Iterator[tuple[str, int]]:
    """(path below the group, process id) of every process of the group, as one hierarchy has them.

    None while there is no such group, as during a reboot of the node.
    """
    top = next((one / name for one in _hierarchies() if (one / name).is_dir()), None)
    for folder, _, _ in os.walk(top) if top is not None else ():
        try:
            ids = Path(folder, "cgroup.procs").read_text().split()
        except OSError:  # the group is just being removed
            continue
        yield from ((os.path.relpath(folder, top), int(pid)) for pid in ids)
