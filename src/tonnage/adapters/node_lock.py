"""One agent on a node: a lock on a file, which a crash lets go of."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tonnage.adapters.checkpoints import file_problem
from tonnage.adapters.ports import Clock
from tonnage.model.errors import HardwareError, Problem

_WAIT_S: Final = 15.0
_AGAIN_S: Final = 0.1


@asynccontextmanager
async def alone_on(file: Path, clock: Clock) -> AsyncIterator[None]:
    """Hold the file's lock; wait a while for a predecessor that is just ending.

    Raises:
        HardwareError: another process keeps it, or the file system refuses.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HardwareError(file_problem("cannot be opened", file, error)) from None
    try:
        until = clock.monotonic() + _WAIT_S
        while not _locked(handle, file):
            if clock.monotonic() >= until:
                remedy = "end it first, or use another --root"
                raise HardwareError(Problem("another agent runs on this node", str(file), remedy=remedy))
            await clock.sleep(_AGAIN_S)
        yield
    finally:
        os.close(handle)


def _locked(handle: int, file: Path) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise HardwareError(file_problem("cannot be locked", file, error)) from None
    return True
