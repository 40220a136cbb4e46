"""Servers that a lab asks for by name: started by Tonnage with its own arguments, and ended with the lab.

A lab chooses from this table and nothing more. Each server listens on 127.0.0.1 alone, at a free port, and
keeps its data in a folder that is removed. Its address is the variable that `SERVERS` names.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tonnage.cli.locations.folders import cache_folder
from tonnage.documents.lab.steps import SERVERS
from tonnage.model.errors import ConfigError, HardwareError, Problem, TonnageError

PAGES: Final = "pages.json"
"""File in a server's folder: what of the cluster it reads."""
_READY_S: Final = 30
_STOP_S: Final = 10
_LOOK_S: Final = 1.0
_PAUSE_S: Final = 0.05
_TAIL_BYTES: Final = 2000


@dataclass(frozen=True, slots=True)
class Server:
    """How to start one. `arguments` gets its folder and port, and writes its configuration."""

    program: str
    arguments: Callable[[Path, int], Sequence[str]]
    ready: str
    """Path that answers 200 once it can be used."""
    install: str


def _prometheus(folder: Path, port: int) -> Sequence[str]:
    """It scrapes itself and the pages of Tonnage: what of a cluster it may ask is not the lab's to say."""
    address, config = f"127.0.0.1:{port}", folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        f"- {{job_name: prometheus, static_configs: [{{targets: ['{address}']}}]}}\n"
        f"- {{job_name: tonnage, honor_labels: true, file_sd_configs: [{{files: [{PAGES}]}}]}}\n"
    )
    return (
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=1h",
        f"--web.listen-address={address}",
    )


_TABLE: Final[Mapping[str, Server]] = {
    "prometheus": Server("prometheus", _prometheus, "/-/ready", "https://prometheus.io/download"),
}


@asynccontextmanager
async def lab_servers(
    names: Sequence[str], environment: Mapping[str, str], kubeconfig: Path | None = None
) -> AsyncIterator[dict[str, str]]:
    """The servers, ready; the values of their variables. They read pages of the cluster of `kubeconfig`.

    Raises:
        ConfigError: a program is not here.
        HardwareError: a server ends by itself, or does not get ready.
    """
    programs = {name: _program(_TABLE[name], environment) for name in names}
    values: dict[str, str] = {}
    async with contextlib.AsyncExitStack() as stack:
        for name, program in programs.items():
            port, folder = await stack.enter_async_context(_running(_TABLE[name], program))
            values[SERVERS[name]] = f"http://127.0.0.1:{port}"
            if kubeconfig is not None:
                await stack.enter_async_context(_following(kubeconfig, folder / PAGES))
        yield values


def _program(server: Server, environment: Mapping[str, str]) -> Path:
    cached = cache_folder(environment) / server.program
    places = (cached, cached.parent / "monitoring" / server.program)
    program = shutil.which(server.program, path=environment.get("PATH")) or next(
        filter(None, (shutil.which(str(place)) for place in places)), None
    )
    if program is None:
        remedy = f"{server.install}, then put it into PATH or at {cached}"
        raise ConfigError(
            Problem(f"{server.program} is not installed", why="the lab needs it", remedy=remedy)
        )
    return Path(program).absolute()


@asynccontextmanager
async def _following(kubeconfig: Path, file: Path) -> AsyncIterator[None]:
    """Keep the list of pages as it is in the cluster: agents come and go while a lab runs."""
    from tonnage.adapters.kubernetes.client import connect
    from tonnage.cli.metrics.serving import read_targets

    async def follow() -> None:
        before: object = None
        async with connect(kubeconfig) as api:
            while True:
                with contextlib.suppress(TonnageError):  # the next look may succeed
                    pages = await read_targets(api, None)
                    if pages != before:
                        fresh = file.with_suffix(".new")
                        fresh.write_text(json.dumps(pages), encoding="utf-8")
                        fresh.replace(file)
                        before = pages
                await asyncio.sleep(_LOOK_S)

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def _running(server: Server, program: Path) -> AsyncIterator[tuple[int, Path]]:
    with tempfile.TemporaryDirectory(prefix="tonnage-server-") as name:
        folder, port = Path(name), _free_port()
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                program,
                *server.arguments(folder, port),
                cwd=folder,
                env={"HOME": name, "PATH": os.defpath},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            await _until_ready(server, process, port, folder / "log")
            yield port, folder
        finally:
            await _end(process)


async def _until_ready(server: Server, process: asyncio.subprocess.Process, port: int, log: Path) -> None:
    why = f"it did not answer {server.ready} within {_READY_S} s"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_READY_S):
            while process.returncode is None:
                if await _answers(port, server.ready):
                    return
                await asyncio.sleep(_PAUSE_S)
            why = f"it ended with exit status {process.returncode}"
    raise _not_started(server, why, log)


def _not_started(server: Server, why: str, log: Path) -> HardwareError:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        tail = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    return HardwareError(Problem(f"{server.program} did not start", why=f"{why}\n{tail}".strip()))


async def _answers(port: int, path: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
            return b" 200 " in await reader.readline()
        finally:
            writer.close()
    return False


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert isinstance(port, int)
        return port
