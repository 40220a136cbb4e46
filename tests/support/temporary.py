"""Where tests have their temporary files: in memory, where there is room for them and programs may run.

Some tests wait until each of a thousand small files is on disk, which says nothing about what is tested.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

_SHARED_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 2 << 30
"""Bytes. A whole run has 0.2 GiB at a time."""


def use_memory(environment: MutableMapping[str, str], folder: Path = _SHARED_MEMORY) -> None:
    """Have this process and those that it starts use `folder`, unless the environment names another one."""
    if "TMPDIR" not in environment and _is_fit(folder):
        environment["TMPDIR"] = str(folder)
        tempfile.tempdir = None  # it is looked up again


def _is_fit(folder: Path) -> bool:
    try:
        system = os.statvfs(folder)
    except OSError:
        return False
    room = system.f_bavail * system.f_frsize
    return room >= _ROOM and not system.f_flag & os.ST_NOEXEC and os.access(folder, os.W_OK)
