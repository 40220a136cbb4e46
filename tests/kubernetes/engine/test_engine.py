"""`tonnage up --engine kubernetes` from the outside: processes, files, signals."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tonnage.cli.locations.binaries import CONTROL_PLANE, chosen_minor
from tonnage.cli.locations.kubectl import nearest_kubectl
from tonnage.cli.locations.state import StateFolder

pytestmark = pytest.mark.kubernetes

SMALL = "name: small\ngroups: [{name: t4, nodes: 1, gpu: {model: T4}}, {name: cpu, nodes: 1}]\n"
PATIENCE_S = 60.0


class Bench:
    """A state folder and a small scenario; whatever runs there is ended afterwards."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.runtime = folder / "run"
        self.runtime.mkdir()
        self.scenario = folder / "small.yaml"
        self.scenario.write_text(SMALL)
        self.environment = {
            **os.environ,
            "TONNAGE_STATE": str(self.state),
            "XDG_RUNTIME_DIR": str(self.runtime),
        }
        self.up_command = ["up", "--engine", "kubernetes", "--scenario", str(self.scenario)]

    def tonnage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tonnage", *arguments],
            capture_output=True,
            text=True,
            env=self.environment,
            check=False,
            timeout=600,
        )

    def up(self) -> None:
        started = self.tonnage(*self.up_command, "--detach")
        assert started.returncode == 0, started.stderr

    def processes(self) -> Mapping[str, int]:
        """Programs whose command line names the state folder; not this cluster's `tonnage` itself."""
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode().split("\0") if entry.name.isdigit() else []
                if any(str(self.state) in word for word in words) and "tonnage" not in words:
                    found[Path(words[0]).name] = int(entry.name)
        return found

    def until_none_runs(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while left := self.processes():
            assert time.monotonic() < deadline, left
            time.sleep(0.1)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        bench = Bench(Path(folder))
        yield bench
        if pid := StateFolder(bench.state).owner():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        bench.until_none_runs()


def test_up_and_down(bench: Bench) -> None:
    bench.up()
    assert sorted(bench.processes()) == sorted(CONTROL_PLANE)
    assert {entry.stat().st_mode & 0o077 for entry in bench.state.rglob("*")} == {0}, "secrets, all of it"
    kubectl = [
        str(nearest_kubectl(chosen_minor(os.environ))),
        "--kubeconfig",
        str(bench.state / "kubeconfig"),
    ]
    nodes = json.loads(subprocess.check_output([*kubectl, "get", "nodes", "-o", "json"], timeout=600))[
        "items"
    ]
    version = json.loads(subprocess.check_output([*kubectl, "version", "-o", "json"], timeout=600))[
        "serverVersion"
    ]
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes} == {version["gitVersion"]}
    assert version["gitVersion"] == f"v{version['major']}.{version['minor']}.{version['gitVersion'][6:]}"

    assert bench.tonnage("down").returncode == 0
    bench.until_none_runs()
    assert not bench.state.exists()
    assert list(bench.runtime.iterdir()) == []


def test_top_reads_the_pages_of_nodes_that_the_api_server_does_not_reach(bench: Bench) -> None:
    """Their pods have addresses of no network, so the API server's proxy fails for everybody."""
    bench.up()
    deadline = time.monotonic() + PATIENCE_S
    while True:
        shown = bench.tonnage("top", "--once", "-o", "json", "--kubeconfig", str(bench.state / "kubeconfig"))
        assert shown.returncode == 0, shown.stderr
        devices = json.loads(shown.stdout)["devices"]
        if devices and all(device["age_s"] is None for device in devices):
            break
        assert time.monotonic() < deadline, shown.stdout
    assert all(device["reading"]["temperature_c"] for device in devices)


def test_etcd_answers_nobody_without_a_certificate(bench: Bench) -> None:
    bench.up()
    words = Path(f"/proc/{bench.processes()['etcd']}/cmdline").read_bytes().decode().split("\0")
    urls = [word.partition("=")[2] for word in words if word.startswith("--listen-")]
    assert len(urls) == 2
    trusting = ssl.create_default_context(cafile=str(bench.state / "control-plane" / "ca.pem"))
    for url in urls:
        with pytest.raises(ssl.SSLError, match="certificate required"):
            _ask(url, trusting)


def _ask(url: str, trusting: ssl.SSLContext) -> None:
    address = urlsplit(url)
    with (
        socket.create_connection((address.hostname, address.port)) as plain,
        trusting.wrap_socket(plain, server_hostname=address.hostname) as connection,
    ):
        connection.sendall(b"GET /version HTTP/1.1\r\nHost: etcd\r\n\r\n")
        connection.recv(1)


def test_nothing_outlives_a_killed_cluster(bench: Bench) -> None:
    bench.up()
    pid = StateFolder(bench.state).owner()
    assert pid
    os.kill(pid, signal.SIGKILL)
    bench.until_none_runs()
    assert bench.tonnage("down").returncode == 0
    assert not bench.state.exists()


@pytest.mark.parametrize("program", CONTROL_PLANE)
def test_a_program_that_ends_ends_the_cluster_and_its_log_is_named(bench: Bench, program: str) -> None:
    cluster = subprocess.Popen(
        [sys.executable, "-m", "tonnage", *bench.up_command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=bench.environment,
    )
    assert cluster.stdout is not None
    assert cluster.stdout.readline().startswith("export KUBECONFIG=")
    os.kill(bench.processes()[program], signal.SIGKILL)
    _, said = cluster.communicate(timeout=PATIENCE_S)
    assert cluster.returncode == 3, said
    assert f"error: {program} has ended\n" in said
    log = bench.state / "control-plane" / f"{program}.log"
    assert f"where: {log}\n" in said
    assert "Traceback" not in said
    bench.until_none_runs()
    assert [path for path in bench.state.rglob("*") if path.is_file()] == [log]
    assert bench.tonnage("down").returncode == 0
    assert not bench.state.exists()


def test_ctrl_c_ends_it_in_order(bench: Bench) -> None:
    cluster = subprocess.Popen(
        [sys.executable, "-m", "tonnage", *bench.up_command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=bench.environment,
    )
    assert cluster.stdout is not None
    assert cluster.stdout.readline().startswith("export KUBECONFIG=")
    cluster.send_signal(signal.SIGINT)
    assert cluster.wait(PATIENCE_S) == 0
    cluster.stdout.close()
    assert bench.processes() == {}
    assert not bench.state.exists()


def test_a_port_in_use_is_named(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        failed = bench.tonnage(*bench.up_command, "--port", port)
    assert failed.returncode == 2
    assert f"port {port} cannot be opened" in failed.stderr
    assert not bench.state.exists()
