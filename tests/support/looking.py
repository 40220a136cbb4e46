"""Waiting for what tells nobody that it changes: a file, a process, a driver."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_OVER: Final = "ZX"
PATIENCE_S: Final = 60.0
_LOOKS_S: Final = 0.01


async def until(holds: Callable[[], object]) -> None:
    """Look again and again until it holds. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_LOOKS_S)


def wait_until(holds: Callable[[], object]) -> None:
    """The same where nothing is awaited. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(_LOOKS_S)


def runs(pid: int) -> bool:
    """Whether the process has not ended; one that nobody has fetched has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in _OVER
    except OSError:
        return False
