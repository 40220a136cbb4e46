"""Agents that start in no time: a process that has loaded all they need, and forks for each.

`python -m support.crash.forked_agents` reads a `Birth` a line and answers with the number of a child process
that runs the command line as the program `tonnage` does, only that its clock runs faster. Children end
with it. With a `Birth` as its argument it is that child, which has loaded nothing before.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Final

import msgspec

from support.nvml.library import built_library
from tonnage.model.catalog.mig import mig_models

TESTS: Final = str(Path(__file__).parents[2])
"""Where modules of tests are, for programs that are started."""
_PR_SET_PDEATHSIG: Final = 1
_NEEDED: Final = ("adapters", "agent", "cli", "decide.node", "documents", "loop", "model", "reading", "wire")
"""Rooms of which an agent loads modules."""
_LIBRARIES: Final = (
    *(
        "anyio._backends._asyncio",
        "concurrent.futures.thread",
        "grpc.aio",
        "h2.connection",
        "h11",
        "httpcore2",
    ),
    *("importlib.readers", "pynvml", "truststore"),
)
"""What is loaded at first use."""


@dataclass(frozen=True, slots=True)
class Fuse:
    """The deed at which the agent ends: number `number` of that name, from 1; before it, or after."""

    deed: str = ""
    number: int = 0
    after: bool = False

    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} {self.deed} {self.number}"


NEVER: Final = Fuse()


@dataclass(frozen=True, slots=True)
class Birth:
    """An agent's command line. Its deeds below `root` are written to `trace`; all that it says, to `log`."""

    words: tuple[str, ...]
    root: str
    trace: str
    log: str
    haste: float
    fuse: Fuse = NEVER
    loaded: bool = True
    """False: it is a new interpreter, as a program that is started."""


class HastyClock:
    """Time that passes `haste` times as fast."""

    haste = 1.0

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic() * self.haste

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / self.haste)


class Nursery:
    """The process, from the side of who asks it."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "nursery.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
        environment["PYTHONPATH"] = os.pathsep.join([TESTS, *filter(None, [environment.get("PYTHONPATH")])])
        environment["LD_PRELOAD"] = str(built_library(Path(__file__).parent, "fuse.so"))
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "support.crash.forked_agents"),
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )

    async def bear(self, birth: Birth) -> int:
        """Start an agent; its process number. It is no child of this process: use `os.pidfd_open`."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(birth) + b"\n")
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the nursery has ended: {self._log.read_text()[-2000:]}")
        return int(line)

    async def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self._process.wait()


def main() -> None:
    """Fork for every line of the input."""
    if len(sys.argv) > 1:
        _live(msgspec.json.decode(sys.argv[1], type=Birth))
    _load()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin.buffer:
        birth = msgspec.json.decode(line, type=Birth)
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            _be_born(birth, parent)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


def _load() -> None:
    """All that an agent needs, of the catalogue as well; nothing is started."""
    for room in _NEEDED:
        package = import_module(f"tonnage.{room}")
        for found in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(found.name)
    for name in _LIBRARIES:
        import_module(name)
    mig_models()


def _be_born(birth: Birth, parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(birth.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(old, new)
    if not birth.loaded:
        words = (sys.executable, "-m", "support.crash.forked_agents", msgspec.json.encode(birth).decode())
        os.execv(sys.executable, words)
    _live(birth)


def _live(birth: Birth) -> None:
    _arm(birth)
    HastyClock.haste = birth.haste
    setattr(import_module("tonnage.adapters.clock"), "SystemClock", HastyClock)  # noqa: B010 - not for mypy
    _run(birth.words)


def _arm(birth: Birth) -> None:
    fuse = birth.fuse
    ctypes.CDLL(None).fuse_arm(
        birth.root.encode(), birth.trace.encode(), fuse.deed.encode(), fuse.number, int(fuse.after)
    )


def _run(words: Sequence[str]) -> None:
    from tonnage.cli.main import main as program

    sys.argv[:] = ["tonnage", *words]
    program()
    os._exit(0)


if __name__ == "__main__":
    main()
