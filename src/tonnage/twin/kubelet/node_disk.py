"""The node's disk, behind a port so that a test can make it slow or full."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final, Protocol

from tonnage.ports.clock import Clock

READ_LIMIT: Final = 16 << 20


class NodeDisk(Protocol):
    """Small files that must survive. Both methods raise OSError as the operating system does."""

    async def read(self, path: Path) -> bytes | None:
        """The whole file, or None when there is none."""
        ...

    async def write(self, path: Path, content: bytes) -> None:
        """Replace the file at once or not at all; readable by its owner only."""
        ...


class LocalDisk:
    """The real thing: temporary file, fsync, rename."""

    async def read(self, path: Path) -> bytes | None:
        try:
            with path.open("rb") as file:
                content = file.read(READ_LIMIT + 1)
        except FileNotFoundError:
            return None
        if len(content) > READ_LIMIT:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return content

    async def write(self, path: Path, content: bytes) -> None:
        temporary = path.with_name(f".{path.name}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


class FaultyDisk:
    """A disk that can be slow (`delay_s` before every write, by the clock) or full; reads are untouched."""

    def __init__(self, disk: NodeDisk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self.delay_s = 0.0
        self.full = False

    async def read(self, path: Path) -> bytes | None:
        return await self._disk.read(path)

    async def write(self, path: Path, content: bytes) -> None:
        if self.delay_s:
            await self._clock.sleep(self.delay_s)
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        await self._disk.write(path, content)
