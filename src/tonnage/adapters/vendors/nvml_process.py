"""Processes that read NVML in place of this one, after a call here did not come back."""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tonnage.adapters.vendors.driver_thread import NODE, OverdueError
from tonnage.adapters.vendors.nvml_child import ReadRequest, Reply
from tonnage.model.devices.inventory import RawEvent
from tonnage.model.errors import HardwareError, Problem, words_of

_MOST: Final = 4
"""Those included that were killed and do not end, because a call of the driver holds them."""
_LONGEST_LINE: Final = 16 << 20
_STARTS_S: Final = 20.0
"""Until a new process must have begun its first step: no matter of the driver's."""
_ENDS_S: Final = 1.0

Command = tuple[str, ...]


class Helper:
    """One process; asked one thing after another. After it was overdue once it is killed, and no use."""

    def __init__(self, process: Process, deadline_s: float, on_event: Callable[[RawEvent], None]) -> None:
        self._process = process
        self._deadline_s = deadline_s
        self._on_event = on_event
        self._turn = asyncio.Lock()
        self._answers: asyncio.Queue[Reply | None] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())
        self._first = True
        self.killed = False

    @property
    def gone(self) -> bool:
        """Whether the process has ended."""
        return self._process.returncode is not None

    async def ask(self, request: ReadRequest) -> Reply:
        """The answer. Raises OverdueError; HardwareError: what the driver says, or the process ended."""
        async with self._turn:
            assert self._process.stdin is not None
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            due = time.monotonic() + (_STARTS_S if self._first else self._deadline_s)
            subject, self._first = NODE, False
            try:
                while True:
                    async with asyncio.timeout(max(0.0, due - time.monotonic())):
                        reply = await self._answers.get()
                    if reply is None:
                        raise HardwareError(Problem("the process that reads NVML has ended"))
                    if reply.error is not None:
                        raise HardwareError(Problem(f"NVML: {reply.error}"))
                    if reply.subject is None:
                        return reply
                    subject, due = reply.subject, time.monotonic() + reply.times * self._deadline_s
            except TimeoutError:
                self.kill()
                raise OverdueError(request.do, subject, self._deadline_s) from None
            except asyncio.CancelledError:
                self.kill()  # its answer would be taken for that of the next question
                raise

    def kill(self) -> None:
        """End it now; one that a call of the driver holds ends when that comes back."""
        self.killed = True
        with suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        """End it, and wait for a moment until it has."""
        self.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDS_S):
                await self._process.wait()
                await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError, msgspec.DecodeError):
            async for line in self._process.stdout:
                reply = msgspec.json.decode(line, type=Reply)
                if reply.event is not None:
                    self._on_event(reply.event)
                else:
                    self._answers.put_nowait(reply)
        self._answers.put_nowait(None)


class Helpers:
    """The process that reads in place of this one, and those that try what hangs; never more than `_MOST`."""

    def __init__(
        self,
        root: Path,
        driver_root: Path | None,
        *,
        deadline_s: float,
        on_event: Callable[[RawEvent], None],
    ) -> None:
        self._command: Command = (
            *(sys.executable, "-I", "-m", "tonnage.adapters.vendors.nvml_child"),
            *(str(root), str(driver_root or "")),
        )
        self._deadline_s = deadline_s
        self._on_event = on_event
        self._standing: Helper | None = None
        self._all: list[Helper] = []
        self._starting = asyncio.Lock()

    @property
    def count(self) -> int:
        """How many there are, those included that do not end."""
        self._all = [helper for helper in self._all if not helper.gone]
        return len(self._all)

    async def ask(self, request: ReadRequest) -> Reply:
        """What the one that stands answers; it is started when there is none.

        Raises OverdueError, after which it is replaced; HardwareError.
        """
        async with self._starting:
            helper = self._standing
            if helper is None or helper.gone or helper.killed:
                helper = self._standing = await self._start(_MOST, self._on_event)
        try:
            return await helper.ask(request)
        finally:
            if helper.killed:
                await helper.close()

    async def try_once(self, *requests: ReadRequest) -> None:
        """Ask a process of its own, which ends then. Raises as `ask` does."""
        async with self._starting:
            helper = await self._start(_MOST - 1, lambda _: None)  # one place is for the one that stands
        try:
            for request in requests:
                await helper.ask(request)
        finally:
            await helper.close()

    async def dismiss(self) -> None:
        """End the one that stands: it is needed no more."""
        helper, self._standing = self._standing, None
        if helper is not None:
            await helper.close()

    async def close(self) -> None:
        """End all of them."""
        self._standing = None
        await asyncio.gather(*(helper.close() for helper in self._all))

    async def _start(self, most: int, on_event: Callable[[RawEvent], None]) -> Helper:
        if self.count >= most:
            why = f"{self.count} processes wait for its answers"
            remedy = "check the kernel log for Xid errors; the node may need a restart"
            raise HardwareError(Problem("the driver does not answer", why=why, remedy=remedy))
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=PIPE, stdout=PIPE, limit=_LONGEST_LINE, start_new_session=True
            )
        except OSError as error:
            raise HardwareError(
                Problem("no process can be started to read NVML", why=words_of(error))
            ) from None
        helper = Helper(process, self._deadline_s, on_event)
        self._all.append(helper)
        return helper
