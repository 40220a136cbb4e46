"""Thousands of nodes and pods: the twin's light fleets, and a genuine control plane on the same processors.

The clients run in this process, so that they share the processors with the server, as they would.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from benchmarks.cluster import TONNAGE
from tonnage.adapters.control_plane import ControlPlane, ControlPlaneFolder
from tonnage.cli.binaries import find_binaries
from tonnage.cli.genuine import write_credentials
from tonnage.model.errors import ConfigError
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import Endpoint
from tonnage.twin.pki import Authority

NODES = 10_000
FEWER_NODES = 2_000
PODS = 4_000
CLIENTS = 8
WATCHES = 1_000
WRITES_A_SECOND = 100
SECONDS = 10
LIMIT_S = 600
"""So long a side may take to bind its pods, or to have its nodes ready."""
_PODS = "/api/v1/namespaces/default/pods"
_MAPS = "/api/v1/namespaces/default/configmaps"


@dataclass(frozen=True)
class Server:
    """An API server and what lets one in."""

    host: str
    port: int
    token: str
    context: ssl.SSLContext
    pid: int = 0

    @classmethod
    def of(cls, kubeconfig: Path, pid: int) -> Server:
        content = yaml.safe_load(kubeconfig.read_text())
        cluster = content["clusters"][0]["cluster"]
        host, _, port = cluster["server"].removeprefix("https://").partition(":")
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=ca)
        return cls(host, int(port), content["users"][0]["user"]["token"], context, pid)

    def open(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self.host, self.port, context=self.context, timeout=300)

    def ask(self, on: http.client.HTTPSConnection, method: str, path: str, body: Any = None) -> bytes:
        """The body of a good answer."""
        with self.start(on, method, path, body) as response:
            data: bytes = response.read()
        if response.status not in (200, 201):
            raise ValueError(data.decode())
        return data

    def start(self, on: http.client.HTTPSConnection, method: str, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        on.request(method, path, json.dumps(body) if body else None, headers)
        return on.getresponse()

    def version(self, path: str) -> str:
        """The resource version of a list."""
        with closing(self.open()) as connection:
            listed = json.loads(self.ask(connection, "GET", f"{path}?limit=1"))
        version: str = listed["metadata"]["resourceVersion"]
        return version


def measure(rounds: int) -> dict[str, list[float]]:
    """A large fleet, many pods, many watches; the genuine side is left out without its programs."""
    figures: dict[str, list[float]] = {}
    with _twin(NODES) as server:
        figures[f"light fleet of {NODES} nodes: resident memory, MB (wanted: under 400)"] = [_rss(server.pid)]
        name = f"  LIST of {NODES} nodes over TLS, ms (wanted: under 150)"
        figures[name] = [1000 * _timed(lambda: _list(server, "/api/v1/nodes")) for _ in range(4 * rounds)]
        figures["  from the fleet's start until all nodes are there, CPU s"] = [_cpu_s(server.pid)]
    with _twin(FEWER_NODES) as server:
        name = f"{PODS} pods bound on {FEWER_NODES} light nodes, s (wanted: under 15)"
        before = _cpu_s(server.pid)
        figures[name] = [_bind(server)]
        figures["  CPU of the whole twin for it, s"] = [_cpu_s(server.pid) - before]
    with _twin(1) as server:
        lags, rate = _watched(server)
        figures[f"{WATCHES} watches, {WRITES_A_SECOND} writes/s asked: writes/s done"] = [rate]
        figures["  from the write's answer to one watch's event, median ms (wanted: under 20)"] = lags
    try:
        binaries = find_binaries(os.environ).folder
    except ConfigError as error:
        print(f"left out: a genuine control plane ({error.problems[0].remedy})", file=sys.stderr)
        return figures
    with _genuine(binaries, FEWER_NODES) as server:
        try:
            figures[f"genuine control plane: {PODS} pods bound on {FEWER_NODES} nodes, s"] = [_bind(server)]
        except TimeoutError as error:
            print(f"left out: a genuine control plane ({error})", file=sys.stderr)
    return figures


@contextmanager
def _twin(nodes: int) -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    fleet = folder / "fleet.yaml"
    group = f"{{name: light, nodes: {nodes}, light: true, gpu: {{model: H100-80, count: 8}}, cpu: 128}}"
    fleet.write_text(f"name: light\ngroups: [{group}]\n")
    environment = os.environ | {"TONNAGE_STATE": str(folder / "state")}
    command = [TONNAGE, "up", "--scenario", str(fleet)]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline(), "the twin did not come up"
        server = Server.of(folder / "state/kubeconfig", process.pid)
        _wait_for_nodes(server, nodes)
        yield server
    finally:
        process.terminate()
        process.communicate(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _genuine(binaries: Path, nodes: int) -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    files = ControlPlaneFolder(folder / "control-plane")
    plane = ControlPlane(binaries, files, os.environ)
    authority = Authority.generate(datetime.now(UTC))
    token = write_credentials(files, authority, plane.url)["admin"]
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(kubeconfig_text(Endpoint(plane.url, authority.certificate_pem, token)))
    try:
        # Nobody makes accounts, and nobody says that the nodes are well, or not.
        asyncio.run(plane.serve("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"))
        server = Server.of(kubeconfig, 0)
        amounts = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
        status = {"capacity": amounts, "allocatable": amounts}
        status["conditions"] = [{"type": "Ready", "status": "True"}]  # type: ignore[assignment]
        with closing(server.open()) as connection:
            for number in range(nodes):
                body = {"metadata": {"name": f"light-{number}"}, "status": status}
                server.ask(connection, "POST", "/api/v1/nodes", body)
        plane.run_loops()
        asyncio.run(plane.end("kube-controller-manager"))  # it would miss the nodes' heartbeats
        yield server
    finally:
        asyncio.run(plane.stop())
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_nodes(server: Server, wanted: int) -> None:
    """Return once all nodes take pods, as those of the genuine side do: making them is not placing pods."""
    deadline = time.monotonic() + LIMIT_S
    with closing(server.open()) as connection:
        while True:
            listed = json.loads(server.ask(connection, "GET", "/api/v1/nodes?limit=100000"))
            ready = [node for node in listed["items"] if not node["spec"].get("taints")]
            if len(ready) >= wanted:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(ready)} of {wanted} nodes after {LIMIT_S} s")
            time.sleep(1)


def _list(server: Server, path: str) -> None:
    with closing(server.open()) as connection:
        connection.connect()
        server.ask(connection, "GET", path)


def _bind(server: Server) -> float:
    """Seconds from the first post to the event that shows the last pod with a node.

    Raises:
        TimeoutError: not all are bound by `LIMIT_S`.
    """
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "main", "image": "busybox", "resources": resources}

    def post(first: int) -> None:
        with closing(server.open()) as connection:
            for number in range(first, PODS, CLIENTS):
                body = {"metadata": {"name": f"pod-{number}"}, "spec": {"containers": [container]}}
                server.ask(connection, "POST", _PODS, body)

    # The server ends the watch at the limit, and so does this.
    since = f"watch=1&resourceVersion={server.version(_PODS)}&timeoutSeconds={LIMIT_S}"
    with (
        closing(server.open()) as connection,
        server.start(connection, "GET", f"{_PODS}?{since}") as events,
    ):
        started = time.perf_counter()
        threads = [threading.Thread(target=post, args=(first,)) for first in range(CLIENTS)]
        for thread in threads:
            thread.start()
        bound: set[str] = set()
        for line in events:
            pod = json.loads(line)["object"]
            if pod["spec"].get("nodeName"):
                bound.add(pod["metadata"]["name"])
            if len(bound) == PODS:
                break
        taken = time.perf_counter() - started
        for thread in threads:
            thread.join()
    if len(bound) < PODS:
        raise TimeoutError(f"{len(bound)} of {PODS} pods bound after {taken:.0f} s")
    return taken


def _watched(server: Server) -> tuple[list[float], float]:
    """Milliseconds from the answer to a write to its event, and how many writes a second were done."""
    return asyncio.run(_watch_and_write(server))


async def _watch_and_write(server: Server) -> tuple[list[float], float]:
    version = server.version(_MAPS)
    path = f"{_MAPS}?watch=1&resourceVersion={version}"
    head = f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {server.token}\r\n\r\n".encode()
    arrived: dict[str, float] = {}
    told = 0

    async def follow(*, note: bool) -> None:
        nonlocal told
        reader, writer = await asyncio.open_connection(server.host, server.port, ssl=server.context)
        writer.write(head)
        while line := await reader.readline():
            if line.startswith(b'{"type"'):
                told += 1
                if note:
                    name = json.loads(line)["object"]["metadata"]["name"]
                    arrived.setdefault(name, time.perf_counter())

    watchers = [asyncio.ensure_future(follow(note=number == 0)) for number in range(WATCHES)]
    await asyncio.sleep(15)
    answered: dict[str, float] = {}
    started = time.perf_counter()
    await asyncio.to_thread(_write, server, answered)
    rate = len(answered) / (time.perf_counter() - started)
    for _ in range(300):
        if told >= WATCHES * len(answered):
            break
        await asyncio.sleep(0.1)
    assert told == WATCHES * len(answered), f"{told} events of {WATCHES * len(answered)}"
    for watcher in watchers:
        watcher.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)
    lags = [1000 * (arrived[name] - moment) for name, moment in answered.items()]
    return [max(statistics.median(lags), 0.0)], rate


def _write(server: Server, answered: dict[str, float]) -> None:
    """Write at an even pace; a write that is late is not made up for."""
    with closing(server.open()) as connection:
        for number in range(WRITES_A_SECOND * SECONDS):
            due = time.perf_counter() + 1 / WRITES_A_SECOND
            body = {"metadata": {"name": f"map-{number}"}}
            server.ask(connection, "POST", _MAPS, body)
            answered[f"map-{number}"] = time.perf_counter()
            time.sleep(max(0.0, due - time.perf_counter()))


def _timed(deed: Callable[[], None]) -> float:
    started = time.perf_counter()
    deed()
    return time.perf_counter() - started


def _rss(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
