"""An API server alone, over HTTPS, and unmodified kubectl beside it."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.api_stores import new_store
from support.connections import Streams, connection
from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.in_process_client import LocalKubernetes
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer, Endpoint
from tonnage.wire.kinds import NODE, POD

_OLDER = [pytest.mark.long, pytest.mark.sampled("what an older kubectl says as the newer")]
KUBECTL_VERSIONS = (pytest.param("1.35", marks=_OLDER), "1.37")
"""What both say alike is asked of the newer one in `make test`, of the older some in `make test-long`."""
_PATIENCE_S = 60


@dataclass(frozen=True)
class Answer:
    """What kubectl, or the server, said."""

    code: int
    out: str
    err: str = ""
    headers: dict[str, str] | None = None

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """A table's cells, without its head."""
        return [line.split() for line in self.out.splitlines()[1:]]


class Kubectl:
    """kubectl of one version with a kubeconfig of its own."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.folder = folder
        self._binary = binary
        self._environment = {
            "KUBECONFIG": str(folder / "config"),
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "GOGC": "off",  # short lives need no garbage collector
        }

    async def start(self, *arguments: str, stdin: bool = False) -> asyncio.subprocess.Process:
        """A running kubectl."""
        return await asyncio.create_subprocess_exec(
            self._binary,
            *arguments,
            env=self._environment,
            cwd=self.folder,
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 24,
        )

    async def attempt(self, command: str | list[str], stdin: str | None = None) -> Answer:
        """What a command answers, well or badly."""
        arguments = command.split() if isinstance(command, str) else command
        process = await self.start(*arguments, stdin=stdin is not None)
        async with asyncio.timeout(_PATIENCE_S):
            out, err = await process.communicate(stdin.encode() if stdin is not None else None)
        assert process.returncode is not None
        return Answer(process.returncode, out.decode(), err.decode())

    async def __call__(self, command: str | list[str], stdin: str | None = None) -> Answer:
        """What a command that must succeed answers."""
        answer = await self.attempt(command, stdin)
        assert answer.code == 0, f"{command}: {answer.err}{answer.out}"
        return answer


class Client:
    """Plain HTTP, one request a connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.port = int(endpoint.url.rpartition(":")[2])
        self.token = endpoint.token
        self.context = ssl.create_default_context(cadata=endpoint.ca_pem.decode())

    def open(self) -> AbstractAsyncContextManager[Streams]:
        return connection(asyncio.open_connection("127.0.0.1", self.port, ssl=self.context))

    async def __call__(
        self,
        method: str,
        path: str,
        body: JsonObject | bytes | None = None,
        *,
        token: str | None = "",
        pairs: Sequence[tuple[str, str]] = (),
        **headers: str,
    ) -> Answer:
        """The answer to a request; `token=None` sends none, `pairs` are headers that may repeat."""
        data = msgspec.json.encode(body) if isinstance(body, dict) else body or b""
        lines = {"host": "127.0.0.1", "connection": "close", "content-length": str(len(data))}
        if body and not pairs:
            lines["content-type"] = "application/json"
        if token is not None:
            lines["authorization"] = f"Bearer {token or self.token}"
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in (*lines.items(), *pairs))
        async with self.open() as (reader, writer), asyncio.timeout(_PATIENCE_S):
            writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + data)
            return _answer(await reader.read())


def _answer(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Answer(int(first.split()[1]), body.decode(), headers=headers)


@dataclass(frozen=True)
class Running:
    """A server that listens, with a way in for tests."""

    server: ApiServer
    endpoint: Endpoint
    http: Client
    authority: Authority

    @property
    def api(self) -> LocalKubernetes:
        return self.server.local()

    async def node(self, name: str, **status: Any) -> None:
        """A ready node."""
        ready: JsonObject = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        body: JsonObject = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"conditions": [ready], "nodeInfo": {"kubeletVersion": "v1.35.8"}, **status},
        }
        await self.api.create(NODE, body)

    async def pod(self, name: str, **spec: Any) -> None:
        """A pod of one container."""
        body: JsonObject = {
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec},
        }
        await self.api.create(POD, body, namespace="default")


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority.generate(datetime.now(UTC))


@pytest.fixture
async def running(authority: Authority) -> AsyncIterator[Running]:
    server = ApiServer(SystemClock(), store=new_store())
    endpoint = await server.start(authority)
    yield Running(server, endpoint, Client(endpoint), authority)
    await server.stop()


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=KUBECTL_VERSIONS)
def kubectl(request: pytest.FixtureRequest, running: Running, folder: Path) -> Kubectl:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("the packaged kubectl runs on x86-64 Linux")
    config = folder / "config"
    config.touch(mode=0o600)
    config.write_text(kubeconfig_text(running.endpoint))
    return Kubectl(kubectl_binary(request.param), folder)
