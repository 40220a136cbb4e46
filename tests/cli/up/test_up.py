"""The embedded cluster from the outside: processes, files, signals."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.looking import wait_until
from tonnage.cli.locations.folders import runtime_folder
from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.cli.locations.state import StateFolder

SMALL = "name: small\ngroups: [{name: t4, nodes: 1, gpu: {model: T4}}, {name: cpu, nodes: 1}]\n"


class Bench:
    """A state folder and a small scenario; whatever runs there is ended afterwards."""

    def __init__(self, folder: Path, *program: Path | str) -> None:
        self.program = program
        self.state = folder / "state"
        self.scenario = folder / "small.yaml"
        self.scenario.write_text(SMALL)
        self.runtime = folder / "run"
        self.runtime.mkdir()
        self.environment = {
            **os.environ,
            "TONNAGE_STATE": str(self.state),
            "XDG_RUNTIME_DIR": str(self.runtime),
        }

    def tonnage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.program, *arguments],
            capture_output=True,
            text=True,
            env=self.environment,
            check=False,
            timeout=300,
        )

    def up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.tonnage("up", "--scenario", str(self.scenario), "--detach", *arguments)

    def kubectl(self, *arguments: str) -> str:
        environment = {**self.environment, "KUBECONFIG": str(self.state / "kubeconfig")}
        command = [str(kubectl_binary("1.35")), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, check=True, timeout=300
        ).stdout


@pytest.fixture
def bench(tonnage: Path) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        bench = Bench(Path(folder), tonnage)
        yield bench
        if pid := StateFolder(bench.state).owner():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _its_gates_are_those_that_were_chosen(bench: Bench) -> None:
    """The server keeps the taint of a device, and drops its counters."""
    device = {
        "name": "gpu",
        "taints": [{"key": "k", "effect": "NoSchedule"}],
        "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}],
    }
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "t4-0", "pool": pool, "devices": [device]}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}}
    file = bench.scenario.with_name("slice.json")
    file.write_text(json.dumps({**body, "spec": spec}))
    created = json.loads(bench.kubectl("create", "-f", str(file), "--dry-run=server", "-o", "json"))
    assert sorted(created["spec"]["devices"][0]) == ["name", "taints"]


def test_up_and_down(bench: Bench) -> None:
    bench.program = (sys.executable, "-m", "tonnage")
    refused = bench.up("--feature-gates", "DRADeviceTaint=true")
    assert refused.returncode == 2
    assert "use DRADeviceTaints if you meant that" in refused.stderr
    started = bench.up("--feature-gates", "DRADeviceTaints=true")
    assert started.returncode == 0, started.stderr
    assert started.stdout == f"export KUBECONFIG={bench.state / 'kubeconfig'}\n"
    assert stat.S_IMODE((bench.state / "kubeconfig").stat().st_mode) == 0o600
    assert bench.kubectl("get", "nodes", "-o", "name").split() == ["node/cpu-0", "node/t4-0"]
    offered = bench.kubectl("get", "node", "t4-0", "-o", r"jsonpath={.status.allocatable.nvidia\.com/gpu}")
    assert offered == "1"
    _its_gates_are_those_that_were_chosen(bench)

    again = bench.up()
    assert again.returncode == 2
    assert "an embedded cluster already runs here" in again.stderr
    assert f"process {StateFolder(bench.state).owner()}" in again.stderr
    assert "tonnage down" in again.stderr

    _its_version_is_told(bench)
    _a_lab_runs_on_it(bench)
    _another_starts_once_it_was_killed(bench)
    assert bench.tonnage("down").returncode == 0
    assert not bench.state.exists()
    assert list(bench.runtime.iterdir()) == []
    assert bench.tonnage("down").returncode == 0


def _its_version_is_told(bench: Bench) -> None:
    said = bench.tonnage("version", "-o", "json", "--kubeconfig", str(bench.state / "kubeconfig"))
    assert json.loads(said.stdout)["server"].startswith("v1.35.")


def _a_lab_runs_on_it(bench: Bench) -> None:
    folder = bench.state.parent / "lab"
    folder.mkdir()
    steps = "[{run: kubectl get node t4-0 -o name, expect: {equals: node/t4-0}}]"
    (folder / "lab.yaml").write_text(f"name: x\ntitle: X\nscenario: small\nsteps: {steps}\n")
    ended = bench.tonnage("lab", "run", str(folder), "-o", "json")
    assert ended.returncode == 0, ended.stdout
    assert json.loads(ended.stdout)["passed"] is True
    assert "Starting" not in ended.stderr


def _another_starts_once_it_was_killed(bench: Bench) -> None:
    pid = _kill(bench)
    assert (bench.state / "kubeconfig").exists()
    started = bench.up()
    assert started.returncode == 0, started.stderr
    assert StateFolder(bench.state).owner() != pid


def test_who_takes_the_name_of_the_folder_of_sockets_hinders_nobody(bench: Bench) -> None:
    """Below /tmp anybody may make the usual folder first."""
    usual = runtime_folder(bench.environment, bench.state, os.getuid())
    (bench.runtime / "theirs").mkdir()
    usual.symlink_to("theirs")
    started = bench.up()
    assert started.returncode == 0, started.stderr
    shown = bench.tonnage("hardware", "t4-0")
    assert shown.returncode == 0, shown.stderr
    assert bench.tonnage("down").returncode == 0
    assert {file.name for file in bench.runtime.iterdir()} == {"theirs", usual.name}
    assert list((bench.runtime / "theirs").iterdir()) == []


def test_a_scenario_that_cannot_be_used_is_refused_in_the_background_as_in_the_foreground(
    bench: Bench,
) -> None:
    bench.scenario.write_text("name: small\ngroups: [{name: t4, nodes: -1}]\n")
    refused = bench.up()
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == bench.tonnage("up", "--scenario", str(bench.scenario)).stderr
    assert "nodes" in refused.stderr
    assert not bench.state.exists()


def _kill(bench: Bench) -> int:
    """The process that was the cluster."""
    pid = StateFolder(bench.state).owner()
    assert pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: StateFolder(bench.state).owner() is None)
    return pid


def test_a_cluster_that_is_kept_goes_on_after_it_was_killed(bench: Bench) -> None:
    keep = ("--state", str(bench.state))
    assert bench.up(*keep).returncode == 0
    again = bench.up(*keep)
    assert (again.returncode, "an embedded cluster already runs here" in again.stderr) == (2, True)
    bench.kubectl("create", "configmap", "mine", "--from-literal=a=b")
    old = (bench.state / "kubeconfig").read_text()
    _kill(bench)
    assert bench.tonnage("up", "--detach", *keep).returncode == 0  # the fleet is known
    (bench.state / "kubeconfig").write_text(old)
    assert bench.kubectl("get", "configmap", "mine", "-o", "jsonpath={.data.a}") == "b"
    assert bench.kubectl("get", "nodes", "-o", "name").split() == ["node/cpu-0", "node/t4-0"]

    assert bench.tonnage("down", *keep).returncode == 0
    assert sorted(path.name for path in bench.state.iterdir()) == ["cluster.db", "scenario.yaml"]
    port = int(re.findall(r"https://127.0.0.1:(\d+)", old)[0])
    with socket.create_server(("127.0.0.1", port)):
        refused = bench.tonnage("up", *keep)
    assert (refused.returncode, f"port {port} is in use" in refused.stderr) == (2, True)
    (bench.state / "cluster.db").write_text("x" * 100)
    refused = bench.tonnage("up", *keep)
    assert (refused.returncode, "the cluster cannot be read" in refused.stderr) == (2, True)
    assert "Traceback" not in refused.stderr


def test_a_port_in_use_is_named(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        failed = bench.tonnage("up", "--scenario", str(bench.scenario), "--port", port)
    assert failed.returncode in (2, 3)
    assert port in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not bench.state.exists()


def test_a_background_process_that_cannot_start_says_why(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        failed = bench.up("--port", port)
    assert failed.returncode in (2, 3)
    assert port in failed.stderr
    assert "the cluster ended before it was up" in failed.stderr
    assert not bench.state.exists()


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(pytest.param(other, marks=pytest.mark.long) for other in (signal.SIGINT, signal.SIGHUP)),
    ],
    ids=lambda number: number.name,
)
def test_a_foreground_cluster_ends_in_order(bench: Bench, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tonnage", "up", "--scenario", str(bench.scenario)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=bench.environment,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("export KUBECONFIG=")
    process.send_signal(number)
    assert process.wait(300) == 0
    process.stdout.close()
    assert not bench.state.exists()
    assert list(bench.runtime.iterdir()) == []


def test_a_lab_without_a_terminal_ends_with_the_labs_status(bench: Bench) -> None:
    folder = bench.state.parent / "lab"
    folder.mkdir()
    steps = "[{run: kubectl get nodes, expect: {lines: 99}}]"
    (folder / "lab.yaml").write_text(f"name: x\ntitle: X\nscenario: inference\nsteps: {steps}\n")
    ended = bench.tonnage("up", "--scenario", str(bench.scenario), "--lab", str(folder))
    assert ended.returncode == 1
    assert "✗ prints 99 lines" in ended.stdout
    assert not bench.state.exists()


def test_without_its_programs_a_genuine_control_plane_is_refused_with_the_remedy(bench: Bench) -> None:
    bench.environment["XDG_CACHE_HOME"] = str(bench.runtime)
    bench.environment.pop("TONNAGE_KUBERNETES_BIN", None)
    failed = bench.tonnage("up", "--scenario", str(bench.scenario), "--engine", "kubernetes")
    assert failed.returncode == 2
    assert "the Kubernetes programs are missing" in failed.stderr
    assert "make kubernetes-binaries" in failed.stderr
    assert "TONNAGE_KUBERNETES_BIN" in failed.stderr
    assert not bench.state.exists()
