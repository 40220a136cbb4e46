"""Agents that start in no time: a process that has loaded all they need, and forks for each.

`python -m support.crash.nursery` reads a `Birth` a line and answers with the process number of a child that
runs the command line as the program `tonnage` does, only that its clock runs faster. Children end with it.
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
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Final

import msgspec

from support.nvml.library import built_library

TESTS: Final = str(Path(__file__).parents[2])
"""Where modules of tests are, for programs that are started."""
_PR_SET_PDEATHSIG: Final = 1
_NEEDED: Final = (
    *(
        "grpc.aio",
        "pynvml",
        "lightkube",
        "tonnage.cli.node",
        "tonnage.agent.main",
        "tonnage.agent.mig_layout",
    ),
    *("tonnage.adapters.kubernetes.http", "tonnage.adapters.kubernetes.transport", "tonnage.cli.cluster"),
    *("tonnage.adapters.vendors.nvml", "tonnage.adapters.cdi_files", "tonnage.adapters.kubelet.holds"),
    *("tonnage.adapters.kubelet.plugin_folder", "tonnage.adapters.machine", "tonnage.adapters.mps_daemon"),
    *("tonnage.adapters.container_runtime", "tonnage.adapters.logging", "tonnage.adapters.kubernetes.late"),
    *("tonnage.agent.cdi", "tonnage.agent.device_plugin", "tonnage.agent.features", "tonnage.agent.mps"),
    *("tonnage.agent.status", "tonnage.documents.mig_parted", "tonnage.documents.device_plugin_config"),
    *("tonnage.agent.label_sinks", "tonnage.adapters.device_nodes", "tonnage.adapters.features_file"),
    *(
        "tonnage.adapters.kubernetes.client",
        "tonnage.adapters.node_facts.files",
        "tonnage.agent.node_software",
    ),
    *("tonnage.agent.start", "tonnage.agent.status_body", "tonnage.agent.status_device", "tonnage.cli.main"),
    *(
        "tonnage.decide.node.labels",
        "tonnage.decide.node.machine_labels",
        "tonnage.documents.node_gpu_status",
    ),
)
"""What an agent loads in its first second."""
_SPARED: Final = ("anyio._backends._asyncio", "h11", "httpcore2", "truststore", "hpack", "h2.connection")
"""What a client of the API loads by itself, if it still does."""


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
                *(sys.executable, "-m", "support.crash.nursery"),
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
    for name in _NEEDED:
        import_module(name)
    for name in _SPARED:
        with suppress(ImportError):
            import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin.buffer:
        birth = msgspec.json.decode(line, type=Birth)
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            _live(birth, parent)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


def _live(birth: Birth, parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(birth.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(old, new)
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
