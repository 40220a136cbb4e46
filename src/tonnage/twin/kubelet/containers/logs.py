"""What a container wrote: the newest lines, each with its time, and a way to wait for more."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tonnage.twin.kubelet.containers.files import Space

LIMIT_BYTES: Final = 10 << 20
"""The kubelet's containerLogMaxSize: older lines are dropped."""
_LINE_BYTES: Final = 128
"""What a line takes beside its text, which for an empty one is most of it."""
_LONGEST_LINE: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line with its end of line; `stream` is `stdout` or `stderr`."""

    at: datetime
    stream: str
    text: bytes


class ContainerLog:
    """Lines by serial number. A line appears once it is complete, 16 KiB long, or the log is closed.

    It takes its room from `space`; when that is full, its older lines go earlier, and at last its new ones.
    """

    def __init__(self, now: Callable[[], datetime], space: Space | None = None) -> None:
        self._now = now
        self._space = space or Space(LIMIT_BYTES)
        self._lines: deque[LogLine] = deque()
        self._first = 0
        self._bytes = 0
        self._partial = {"stdout": b"", "stderr": b""}
        self._changed = asyncio.Event()
        self.closed = False

    @property
    def end(self) -> int:
        """The serial number that the next line will have."""
        return self._first + len(self._lines)

    def write(self, stream: str, content: bytes) -> None:
        """Append output as it comes."""
        *whole, rest = (self._partial[stream] + content).split(b"\n")
        for line in whole:
            self._append(stream, line + b"\n")
        cut = len(rest) - len(rest) % _LONGEST_LINE
        for start in range(0, cut, _LONGEST_LINE):
            self._append(stream, rest[start : start + _LONGEST_LINE])
        self._partial[stream] = rest[cut:]

    def close(self) -> None:
        """No more output will come."""
        for stream, rest in self._partial.items():
            if rest:
                self._append(stream, rest)
        self._partial = {"stdout": b"", "stderr": b""}
        self.closed = True
        self._wake()

    def since(self, serial: int) -> list[LogLine]:
        """Lines from that serial number on, as far as they are still there."""
        skip = max(0, serial - self._first)
        return [line for index, line in enumerate(self._lines) if index >= skip]

    async def wait(self, serial: int) -> None:
        """Return when there is a line with that serial number or a later one, or the log is closed."""
        while self.end <= serial and not self.closed:
            await self._changed.wait()

    def _append(self, stream: str, text: bytes) -> None:
        needed = len(text) + _LINE_BYTES
        while self._lines and self._bytes + needed > LIMIT_BYTES:
            self._forget_first()
        while not self._space.take(needed):
            if not self._lines:
                return
            self._forget_first()
        self._lines.append(LogLine(self._now(), stream, text))
        self._bytes += needed
        self._wake()

    def forget(self) -> None:
        """Nobody will ask for its lines any more."""
        while self._lines:
            self._forget_first()

    def _forget_first(self) -> None:
        freed = len(self._lines.popleft().text) + _LINE_BYTES
        self._first += 1
        self._bytes -= freed
        self._space.take(-freed)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
