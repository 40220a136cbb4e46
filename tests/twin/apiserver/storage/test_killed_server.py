"""A server that is killed while clients write: every acknowledged write is there, every event was true."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from support.deadlines import join
from tonnage.twin.apiserver.storage.database import Database

MAPS = "/api/v1/namespaces/default/configmaps"
SERVER = """
import asyncio, json, sys
from datetime import UTC, datetime
from pathlib import Path
from tonnage.adapters.clock import SystemClock
from tonnage.twin.apiserver.storage.database import Database
from tonnage.twin.apiserver.server import ApiServer
from tonnage.adapters.certificates import Authority
async def main():
    server = ApiServer(SystemClock(), store=Database.open(Path(sys.argv[1])).store())
    endpoint = await server.start(Authority.generate(datetime.now(UTC)))
    print(json.dumps([endpoint.url, endpoint.token, endpoint.ca_pem.decode()]), flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
WRITERS = 8


@dataclass
class Server:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    port: int
    token: str
    context: ssl.SSLContext

    def open(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=60)

    def send(self, on: http.client.HTTPSConnection, method: str, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        on.request(method, path, json.dumps(body) if body else None, headers)
        return on.getresponse()


@contextmanager
def serving(path: Path) -> Iterator[Server]:
    command = [sys.executable, "-c", SERVER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url, token, ca = json.loads(process.stdout.readline())
            port = int(url.rpartition(":")[2])
            yield Server(process, port, token, ssl.create_default_context(cadata=ca))
        finally:
            process.kill()


@dataclass
class Writer:
    """One client with objects of its own: what each is for certain, and what else it may be at the end."""

    number: int
    server: Server
    random: Random
    sure: dict[str, int | None] = field(default_factory=dict)
    asked: tuple[str, int | None] | None = None
    acknowledged: int = 0
    revision: int = 0

    def run(self) -> None:
        """Write until the server is gone."""
        try:
            with closing(self.server.open()) as connection:
                while True:
                    name = f"w{self.number}-{self.random.randrange(4)}"
                    self._write(connection, name, self.sure.get(name))
        except (OSError, http.client.HTTPException, ValueError):
            return

    def _write(self, connection: http.client.HTTPSConnection, name: str, value: int | None) -> None:
        there, wanted = value is not None, (value or 0) + 1
        body = {"metadata": {"name": name}, "data": {"value": str(wanted)}}
        method, path = ("PUT", f"{MAPS}/{name}") if there else ("POST", MAPS)
        if there and self.random.random() < 0.3:
            method, body, wanted = "DELETE", {}, 0
        self.asked = (name, wanted or None)
        with self.server.send(connection, method, path, body) as response:
            answer = json.loads(response.read())
        assert response.status in (200, 201), answer
        self.sure[name], self.asked = wanted or None, None
        self.revision = max(self.revision, int(answer.get("metadata", {}).get("resourceVersion", 0)))
        self.acknowledged += 1


def _follow(server: Server, seen: dict[str, int]) -> None:
    """Note the version of the last event of each object until the server is gone."""
    try:
        with (
            closing(server.open()) as connection,
            server.send(connection, "GET", f"{MAPS}?watch=1") as response,
        ):
            for line in response:
                metadata = json.loads(line)["object"]["metadata"]
                seen[metadata["name"]] = int(metadata["resourceVersion"])
    except (OSError, http.client.HTTPException, ValueError):
        return


@pytest.mark.long
def test_no_acknowledged_write_is_lost_and_no_other_was_told(tmp_path: Path) -> None:
    random, path = Random(), tmp_path / "cluster.db"
    sure: dict[str, int | None] = {}
    revision = 0
    for _ in range(2):
        seen: dict[str, int] = {}
        with serving(path) as server:
            writers = [Writer(n, server, Random(random.random())) for n in range(WRITERS)]
            for writer in writers:
                writer.sure = {k: v for k, v in sure.items() if k.startswith(f"w{writer.number}-")}
            threads = [threading.Thread(target=writer.run) for writer in writers]
            threads.append(threading.Thread(target=_follow, args=(server, seen)))
            for thread in threads:
                thread.start()
            target = random.randrange(20, 200)
            while sum(writer.acknowledged for writer in writers) < target and any(
                thread.is_alive() for thread in threads
            ):
                threads[0].join(0.002)
            server.process.kill()
            for thread in threads:
                join(thread)
        assert sum(writer.acknowledged for writer in writers) >= target
        revision = max(revision, *(writer.revision for writer in writers))
        sure = _compared(path, writers, seen, revision)


def _compared(
    path: Path, writers: list[Writer], seen: dict[str, int], revision: int
) -> dict[str, int | None]:
    """Hold what lies on disk against what clients know; as it is for certain now."""
    database = Database.open(path)
    store = database.store()
    found: dict[str, tuple[int, int]] = {}
    for one in store.list(("", "configmaps"), namespace="default"):
        obj: Any = one.object
        found[obj["metadata"]["name"]] = int(obj["data"]["value"]), one.revision
    assert store.revision >= max([revision, *seen.values()])
    for writer in writers:
        for name, value in writer.sure.items():
            may_be = {value} | ({writer.asked[1]} if writer.asked and writer.asked[0] == name else set())
            assert found.get(name, (None,))[0] in may_be, name
    for name, version in seen.items():
        assert name not in found or found[name][1] >= version, name
    database.close()
    return {name: value for name, (value, _) in found.items()}
