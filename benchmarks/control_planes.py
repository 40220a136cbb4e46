"""Two control planes whose scale is measured: the twin, and a genuine one on the same processors."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from benchmarks.cluster import TONNAGE
from tonnage.adapters.certificates import Authority
from tonnage.adapters.control_plane import ControlPlane, ControlPlaneFolder
from tonnage.cli.up.genuine import write_credentials
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import Endpoint

LIMIT_S = 600
"""So long a side may take to bind its pods, or to have its nodes ready."""


@dataclass(frozen=True)
class Server:
    """An API server and what lets one in."""

    host: str
    port: int
    token: str
    context: ssl.SSLContext
    kubeconfig: Path
    pids: tuple[int, ...]
    """Of all its processes."""

    @classmethod
    def of(cls, kubeconfig: Path, *pids: int) -> Server:
        content = yaml.safe_load(kubeconfig.read_text())
        cluster = content["clusters"][0]["cluster"]
        host, _, port = cluster["server"].removeprefix("https://").partition(":")
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=ca)
        return cls(host, int(port), content["users"][0]["user"]["token"], context, kubeconfig, pids)

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


@contextmanager
def twin(nodes: int) -> Iterator[Server]:
    """The twin with so many light nodes, all of them ready."""
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
def served_plane(binaries: Path, not_admitting: str) -> Iterator[tuple[ControlPlane, Path]]:
    """A genuine etcd and API server, whose other parts the caller starts, and an administrator's kubeconfig.

    `not_admitting` names the admission plugins that are off, after commas.
    """
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    files = ControlPlaneFolder(folder / "control-plane")
    plane = ControlPlane(binaries, files, os.environ)
    authority = Authority.generate(datetime.now(UTC))
    token = write_credentials(files, authority, plane.url)["admin"]
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(kubeconfig_text(Endpoint(plane.url, authority.certificate_pem, token)))
    try:
        asyncio.run(plane.serve(f"--disable-admission-plugins={not_admitting}"))
        yield plane, kubeconfig
    finally:
        asyncio.run(plane.stop())
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def genuine(binaries: Path, nodes: int) -> Iterator[Server]:
    """A genuine control plane with the objects of so many nodes, none of which there is."""
    # Nobody makes accounts, and nobody says that the nodes are well, or not.
    with served_plane(binaries, "ServiceAccount,TaintNodesByCondition") as (plane, kubeconfig):
        server = Server.of(kubeconfig)
        amounts = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
        status = {"capacity": amounts, "allocatable": amounts}
        status["conditions"] = [{"type": "Ready", "status": "True"}]  # type: ignore[assignment]
        with closing(server.open()) as connection:
            for number in range(nodes):
                body = {"metadata": {"name": f"light-{number}"}, "status": status}
                server.ask(connection, "POST", "/api/v1/nodes", body)
        plane.run_loops()
        asyncio.run(plane.end("kube-controller-manager"))  # it would miss the nodes' heartbeats
        yield Server.of(kubeconfig, *plane.pids.values())


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


def resident_mb(server: Server) -> float:
    """Of all its processes."""
    return sum(_rss(pid) for pid in server.pids)


def _rss(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


def cpu_s(server: Server) -> float:
    """Of all its processes since they were started."""
    return sum(map(_cpu_s, server.pids))


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
