"""One agent on a node: a lock on a file, which a crash lets go of."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tonnage.adapters.checkpoints import file_problem
from tonnage.model.errors import HardwareError, Problem
from tonnage.ports.clock import Clock

_WAIT_S: Final = 15.0
_AGAIN_S: Final = 0.1


@asynccontextmanager
async def alone_on(
    file: Path, clock: Clock, *, beside: Callable[[], object] | None = None
) -> AsyncIterator[None]:
    """Hold the file's lock; wait a while for a predecessor that is just ending.

    With `beside` wait as long as it takes: it is called again and again while another process has the lock.
    What it raises ends the wait.

    Raises:
        HardwareError: another process keeps it, or the file system refuses.
    """
    until = clock.monotonic() + _WAIT_S
    handle = _open(file)
    try:
        while not _locked(handle, file):
            if beside is not None:
                beside()
            elif clock.monotonic() >= until:
                remedy = "stop it first, or use another --root"
                raise HardwareError(Problem("another agent runs on this node", str(file), remedy=remedy))
            await clock.sleep(_AGAIN_S)
            fresh = _open(file)  # it may have been removed: a lock on that one would keep nobody out
            os.close(handle)
            handle = fresh
        yield
    finally:
        os.close(handle)


def _open(file: Path) -> int:
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HardwareError(file_problem("cannot be opened", file, error)) from None


def _locked(handle: int, file: Path) -> bool:
    """Whether the lock is ours, and on the file that others open now."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), file.stat())
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError as error:
        raise HardwareError(file_problem("cannot be locked", file, error)) from None
