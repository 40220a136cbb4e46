"""Another program, started, watched and ended by its process id; it never outlives this process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tonnage.model.errors import ClusterError, Problem

_LAUNCH: Final = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Asks Linux for SIGKILL when the parent dies (PR_SET_PDEATHSIG, kept over exec), then becomes the program.

The parent is looked at afterwards: it may have died before. A function between fork and exec would do the
same, but is not safe in a process with threads.
"""
_PAUSE_S: Final = 0.02
_TAIL_BYTES: Final = 8192
_TAIL_LINES: Final = 6
_LONGEST_LINE: Final = 300


class ChildProcess:
    """A running program that writes to a log of its own. It ends with the thread that starts it."""

    def __init__(
        self, program: Path, arguments: Sequence[str], *, log: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = program.name
        self.log = log
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW
        with os.fdopen(os.open(log, flags, 0o600), "ab") as writer:
            # Its own session: Ctrl-C in the terminal is for us, who then end the programs in order.
            self._process = subprocess.Popen(  # noqa: S603 - a program that the caller chose
                [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), str(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=writer,
                start_new_session=True,
                cwd="/",
                env=dict(environment),
            )

    @property
    def pid(self) -> int:
        """Its process id, which is the program's own: the launcher becomes it."""
        return self._process.pid

    def check(self) -> None:
        """Nothing while it runs.

        Raises:
            ClusterError: it has ended; says how, and the last words of its log.
        """
        status = self._process.poll()
        if status is None:
            return
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        raise ClusterError(
            Problem(f"{self.name} has ended", str(self.log), f"{how}\n{self.last_words()}".rstrip())
        )

    def last_words(self) -> str:
        """The end of its log."""
        with self.log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
        return "\n".join(line[:_LONGEST_LINE] for line in text.splitlines()[-_TAIL_LINES:])

    async def end(self, grace_s: float) -> None:
        """Ask it to end, and make it end when it takes longer than `grace_s`."""
        self._process.terminate()
        deadline = time.monotonic() + grace_s
        while self._process.poll() is None and time.monotonic() < deadline:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(_PAUSE_S)
        self._process.kill()
        self._process.wait()
