"""Mounts the memory that MPS clients share: `python3 -m tonnage.adapters.mps.shared_memory FOLDER`.

A program of its own, for the one thing that takes a privileged container: the agent itself stays without.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Final

from tonnage.model.errors import HardwareError, Problem, TonnageError

_NOSUID, _NODEV, _NOEXEC = 2, 4, 8
_FALLBACK_KIB: Final = 65536
_USAGE: Final = 2


def mount_shared_memory(folder: Path, *, meminfo: Path = Path("/proc/meminfo")) -> bool:
    """A tmpfs of at most half the machine's memory on the folder; whether it had to be mounted.

    One that is there stays: containers have it. Of its own, so that who fills it fills nothing else.
    Raises HardwareError: it cannot be mounted.
    """
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        if os.path.ismount(folder):
            return False
        options = f"mode=1777,size={_size_kib(meminfo)}k"
        libc = ctypes.CDLL(None, use_errno=True)
        flags = ctypes.c_ulong(_NOSUID | _NODEV | _NOEXEC)
        if libc.mount(b"shm", os.fsencode(folder), b"tmpfs", flags, options.encode()):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    except OSError as error:
        remedy = "run the agent privileged, with Bidirectional mount propagation"
        problem = "the memory that MPS clients share cannot be mounted"
        raise HardwareError(Problem(problem, str(folder), error.strerror or str(error), remedy)) from None
    return True


def _size_kib(meminfo: Path) -> int:
    try:
        words = meminfo.read_text(encoding="ascii").split()
        return int(words[words.index("MemTotal:") + 1]) // 2
    except (OSError, ValueError, IndexError):
        return _FALLBACK_KIB


def main(arguments: list[str]) -> int:
    """The exit status."""
    if len(arguments) != 1 or not arguments[0].startswith("/"):
        sys.stderr.write("usage: python3 -m tonnage.adapters.mps.shared_memory FOLDER\n")
        return _USAGE
    try:
        mount_shared_memory(Path(arguments[0]))
    except TonnageError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
