"""The servers that churn: the twin's on its database, and a genuine one. Both can be killed and go on."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from support.genuine import GenuinePlane, control_plane
from tonnage.twin.apiserver.server import Endpoint

_TESTS: Final = str(Path(__file__).parents[2])


def program_environment() -> dict[str, str]:
    """What a program of these tests needs to be found."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([_TESTS, *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


class Side(Protocol):
    """A server."""

    @property
    def endpoint(self) -> Endpoint: ...

    def cut(self) -> None:
        """End all watches, where that can be asked for."""
        ...

    def kill(self) -> None:
        """Kill it, and start it again where it was."""
        ...


class TwinSide:
    """A process of its own."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "cluster.db"
        self._port = 0
        self.endpoint = self._start()

    def _start(self) -> Endpoint:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.churn.server", str(self._file), str(self._port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=program_environment(),
        )
        assert self._process.stdout is not None
        url, authority, token = json.loads(self._process.stdout.readline())
        self._port = int(url.rpartition(":")[2])
        return Endpoint(url, authority.encode(), token)

    def cut(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self.end()
        self._start()

    def end(self) -> None:
        with self._process:
            self._process.kill()


@contextmanager
def twin_side(folder: Path) -> Iterator[Side]:
    side = TwinSide(folder)
    try:
        yield side
    finally:
        side.end()


class GenuineSide:
    """etcd and an API server."""

    def __init__(self, plane: GenuinePlane) -> None:
        self._plane = plane
        authority = plane.files.certificate("ca").read_bytes()
        self.endpoint = Endpoint(plane.programs.url, authority, plane.token)

    def cut(self) -> None:
        """It cannot be asked; clients' own time limits end watches."""

    def kill(self) -> None:
        asyncio.run(self._plane.programs.end("kube-apiserver", 0.0))
        self._plane.programs.start_again("kube-apiserver")
        asyncio.run(self._plane.programs.ready())


@contextmanager
def genuine_side(folder: Path) -> Iterator[Side]:
    with control_plane(folder, "--disable-admission-plugins=ServiceAccount") as plane:
        yield GenuineSide(plane)
