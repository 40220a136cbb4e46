"""Whether paths of a node's host are the host's alone, for who is about to trust what lies there."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

_MOST_LINKS: Final = 40


class HostPaths:
    """`root` stands before the node's paths, `driver_root` before the driver's if mounted.

    `host` stands before the host's own; unless it is given they are seen where the driver's root is the
    host's.
    """

    def __init__(self, root: Path, driver_root: Path | None = None, *, host: Path | None = None) -> None:
        self._root = root
        self._driver_root = driver_root
        self._host = host

    def visible(self, driver_root: str) -> Path | None:
        """What stands before the host's paths where the driver's root on the host is this one.

        None: they are out of sight.
        """
        if self._host is None and self._driver_root is not None and driver_root != "/":
            return None
        return self._host or self._driver_root or self._root

    def open_to_others(self, path: str, driver_root: str) -> str | None:
        """Who else may put something there, in words; empty: root alone, None: the host is out of sight.

        Blocks as long as a file system does.
        """
        host = self.visible(driver_root)
        return None if host is None else open_to_others(host, path)


def open_to_others(host: Path, path: str) -> str:
    """Who but root may put something at a path of the host, in words; empty: nobody.

    Every folder on the way must be root's and writable by nobody else; so must those to which links lead,
    the links, and what lies at the end. What is not there is nobody's: only root can make it. This process's
    own user counts as root, which it is on a node.
    """
    todo, done, links = path.split("/")[::-1], list[str](), 0
    if why := _others(host, "/"):
        return why
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":  # of where links have led, as the kernel has it
            del done[-1:]
            continue
        here, shown = host.joinpath(*done, part), "/" + "/".join([*done, part])
        try:
            target = _target(here)
            if why := _others(here, shown):
                return why
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"{shown} cannot be examined: {error.strerror or error}"
        if target is None:
            done.append(part)
            continue
        links += 1
        if links > _MOST_LINKS:
            return f"{shown} is part of a loop of links"
        if target.startswith("/"):
            done.clear()
        todo += target.split("/")[::-1]
    return ""


def _target(place: Path) -> str | None:
    """Where a link leads; None of what is none."""
    return str(place.readlink()) if place.is_symlink() else None


def _others(place: Path, shown: str) -> str:
    status = place.lstat()
    if status.st_uid not in (0, os.geteuid()):
        return f"{shown} belongs to user {status.st_uid}"
    own_group = (
        os.geteuid() != 0 and status.st_gid == os.getegid()
    )  # a user's folders, pretended to be a node's
    others = stat.S_IWOTH if own_group else stat.S_IWOTH | stat.S_IWGRP
    if not stat.S_ISLNK(status.st_mode) and status.st_mode & others:
        return f"{shown} is writable by others than root (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""
