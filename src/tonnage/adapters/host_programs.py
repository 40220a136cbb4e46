"""Programs of the node's host, run below its root: bounded in time, with nothing of our own environment."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tonnage.model.errors import HardwareError, Problem, words_of

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_IN_FOLDER: Final = 'cd "$1" && shift && exec "$@"'
_LONGEST: Final = 300
_OUTPUT_LIMIT: Final = 1 << 16


class ChrootPrograms:
    """Runs them; `root` is where the host's root folder is visible, `/` on the host itself."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def ask(self, command: str, arguments: Sequence[str] = (), *, timeout_s: float = 60.0) -> str:
        return await self.run(command, arguments, timeout_s=timeout_s)

    async def run(
        self,
        command: str,
        arguments: Sequence[str] = (),
        *,
        variables: Mapping[str, str] | None = None,
        folder: str = "/",
        timeout_s: float = 60.0,
    ) -> str:
        enter = () if self._root == Path("/") else ("chroot", str(self._root))
        words = (*enter, "/bin/sh", "-c", _IN_FOLDER, "sh", folder, command, *arguments)
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                env={"PATH": _PATH, "LC_ALL": "C", **(variables or {})},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                limit=_OUTPUT_LIMIT,
            )
        except OSError as error:
            raise HardwareError(Problem(f"{command} does not run", why=words_of(error))) from None
        output = asyncio.create_task(_tail(process))
        try:
            async with asyncio.timeout(timeout_s):
                await process.wait()
        except TimeoutError:
            problem = f"{command} has not ended within {timeout_s:.0f} s"
            raise HardwareError(Problem(problem)) from None
        finally:
            if process.returncode is None:  # all of it, also when nobody waits any more
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            with suppress(TimeoutError):  # a child of its own may keep the pipe
                async with asyncio.timeout(1):
                    await output
        text = output.result() if output.done() and not output.cancelled() else ""
        if process.returncode:
            why = " ".join(text.split())[-_LONGEST:] or "it printed nothing"
            raise HardwareError(Problem(f"{command} failed ({process.returncode})", why=why))
        return text


async def _tail(process: asyncio.subprocess.Process) -> str:
    """The last of what it says."""
    assert process.stdout is not None
    tail = b""
    while part := await process.stdout.read(_OUTPUT_LIMIT):
        tail = (tail + part)[-_OUTPUT_LIMIT:]
    return tail.decode(errors="replace")
