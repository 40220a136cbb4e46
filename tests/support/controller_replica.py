"""A replica of the controller: a process with the chart's rights, on its own way to the API server."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from support.crash.relay import Relay
from support.genuine import GenuinePlane
from tonnage.adapters.child_process import ChildProcess
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import Endpoint

AGENTS: Final = "tonnage-system"
DRIVERS: Final = ("--drivers", "--evict-rejected-pods", "--operator-namespace=gpu-operator")
_CHUNK: Final = 1 << 16
_BEGINS: Final = " INFO leading: "
_ENDS: Final = " WARNING not leading any more: "


class Cable(Relay):
    """Passes on what is encrypted as it comes. `close` cuts it."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, lambda *_: None)

    async def _requests(
        self, reader: asyncio.StreamReader, there: asyncio.StreamWriter, waiting: list[str]
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                there.write(chunk)
                await there.drain()


class Replica:
    """`tonnage controller` under one identity; killed, it may be started again."""

    def __init__(
        self, plane: GenuinePlane, folder: Path, identity: str, flags: Sequence[str] = DRIVERS
    ) -> None:
        self.identity = identity
        self._flags = flags
        self.cable = Cable(Endpoint(plane.programs.url, b"", ""))
        self._plane = plane
        self._folder = folder
        self._process: ChildProcess | None = None
        self._lives: list[Path] = []
        self._killed_at: dict[Path, datetime] = {}

    async def start(self) -> None:
        """Begin another life."""
        await self._reap()
        await self.cable.open()
        log = self._folder / f"{self.identity}-{len(self._lives)}.log"
        self._lives.append(log)
        name = [f"--identity={self.identity}", f"--agents-namespace={AGENTS}"]
        way = [f"--kubeconfig={self._kubeconfig()}"]
        self._process = ChildProcess(
            Path(sys.executable),
            ["-m", "tonnage", "controller", *self._flags, *name, *way],
            log=log,
            environment=os.environ,
        )

    def kill(self) -> None:
        """At once, as a machine that loses its power."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._killed_at[self._lives[-1]] = datetime.now(UTC)

    def check(self) -> None:
        """Raises ClusterError when it has ended by itself."""
        if self._process is not None and self._lives[-1] not in self._killed_at:
            self._process.check()

    async def end(self) -> None:
        """At once: one that gives the Lease back has another one lead meanwhile."""
        if self._process is not None and self._lives[-1] not in self._killed_at:
            self.kill()
        await self._reap()
        self.cable.close()

    async def _reap(self) -> None:
        if self._process is not None:
            await self._process.end(5.0)
            self._process = None

    def terms(self) -> Iterator[tuple[datetime, datetime, str]]:
        """From when to when it led, by its own logs, with its identity."""
        for log in self._lives:
            since: datetime | None = None
            for line in log.read_text().splitlines():
                if _BEGINS in line:
                    since = datetime.fromisoformat(line.split()[0])
                elif _ENDS in line and since is not None:
                    yield since, datetime.fromisoformat(line.split()[0]), self.identity
                    since = None
            if since is not None:
                yield since, self._killed_at.get(log, datetime.max.replace(tzinfo=UTC)), self.identity

    def _kubeconfig(self) -> Path:
        """With a token of the controller's account, by the cable."""
        made = self._plane.ask("create", "token", "tonnage-controller", "-n", AGENTS)
        assert made.returncode == 0, made.stderr
        authority = self._plane.files.certificate("ca").read_bytes()
        url = f"https://127.0.0.1:{self.cable.port}"
        file = self._folder / f"{self.identity}.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(kubeconfig_text(Endpoint(url, authority, made.stdout.strip())))
        return file
