"""Before a lab runs on a cluster that Tonnage did not start: what it changes, and the question."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tonnage.cli.lab.consent import changes_of
from tonnage.cli.locations.labs_and_scenarios import lab_names, load_lab

FAKE = f"""\
#!{sys.executable} -IS
import pathlib, sys
pathlib.Path({{log!r}}).open("a").write(" ".join(sys.argv[1:]) + "\\n")
"""
MANIFEST = """\
kind: Pod
metadata: {name: trainer, namespace: vision}
---
kind: ConfigMapList
items: [{kind: ConfigMap, metadata: {name: x}}, {kind: Job, metadata: {generateName: y-}}]
"""


class Bench:
    """A lab beside a kubectl that only keeps a log, and a kubeconfig of somebody's."""

    def __init__(self, folder: Path, tonnage: Path) -> None:
        self.tonnage = tonnage
        self.log = folder / "log"
        self.folder = folder / "lab"
        self.folder.mkdir()
        (self.folder / "pod.yaml").write_text(MANIFEST)
        self.kubectl = folder / "kubectl"
        self.kubectl.write_text(FAKE.format(log=str(self.log)))
        self.kubectl.chmod(0o755)
        self.kubeconfig = folder / "kubeconfig"
        document = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        }
        self.kubeconfig.write_text(json.dumps(document))
        self.environment = {
            **os.environ,
            "TONNAGE_KUBECTL": str(self.kubectl),
            "TONNAGE_STATE": str(folder / "none"),
        }

    def write(self, *commands: str) -> None:
        steps = ", ".join(f"{{run: {command}}}" for command in commands)
        text = f"name: x\ntitle: X\nscenario: inference\nsteps: [{steps}]\n"
        (self.folder / "lab.yaml").write_text(text)

    def run(self, *options: str, name: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*options, name=name),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def asked(self, answer: str) -> tuple[int, str]:
        """On a terminal on which somebody types `answer`."""
        ours, theirs = pty.openpty()
        os.write(ours, answer.encode())
        with subprocess.Popen(
            self.command(),
            env=self.environment,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            said, _ = process.communicate(timeout=120)
        os.close(ours)
        os.close(theirs)
        return process.returncode, said.decode()

    def command(self, *options: str, name: str = "") -> list[str]:
        given = ["--kubeconfig", str(self.kubeconfig), *options]
        return [str(self.tonnage), "lab", "run", name or str(self.folder), *given]

    @property
    def ran(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def bench(tmp_path: Path, tonnage: Path) -> Bench:
    bench = Bench(tmp_path, tonnage)
    bench.write("kubectl get pods", "kubectl apply -f pod.yaml", "kubectl apply -f pod.yaml --dry-run=server")
    return bench


def test_without_a_terminal_it_is_refused_with_what_it_changes_and_what_to_do(bench: Bench) -> None:
    ended = bench.run()
    assert ended.returncode == 2
    assert "step 2: kubectl apply -f pod.yaml\n" in ended.stderr
    assert "pod.yaml: Pod vision/trainer, ConfigMap x, Job y-" in ended.stderr
    assert "step 1" not in ended.stderr
    assert "step 3" not in ended.stderr
    assert "add --yes" in ended.stderr
    assert bench.ran == []


def test_a_lab_that_ships_is_refused_alike(bench: Bench) -> None:
    ended = bench.run(name="pending-pod")
    assert (ended.returncode, bench.ran) == (2, [])
    assert "step 1: OURS=$(kubectl create namespace" in ended.stderr or "kubectl apply" in ended.stderr


def test_with_yes_it_runs_and_says_what_it_changes(bench: Bench) -> None:
    ended = bench.run("--yes", "-o", "json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["passed"] is True
    assert "step 2: kubectl apply -f pod.yaml\n" in ended.stderr
    assert bench.ran == ["get pods", "apply -f pod.yaml", "apply -f pod.yaml --dry-run=server"]


def test_a_lab_that_changes_nothing_is_not_asked_about(bench: Bench) -> None:
    bench.write("kubectl get pods")
    assert bench.run().returncode == 0
    assert bench.ran == ["get pods"]


@pytest.mark.parametrize(("answer", "status", "ran"), [("y\n", 0, 3), ("n\n", 1, 0), ("\n", 1, 0)], ids=repr)
def test_on_a_terminal_it_asks(bench: Bench, answer: str, status: int, ran: int) -> None:
    ended, said = bench.asked(answer)
    assert "Run it there? [y/N]" in said
    assert ended == status, said
    assert len(bench.ran) == ran


def test_a_context_without_a_kubeconfig_is_refused(bench: Bench) -> None:
    command = [str(bench.tonnage), "lab", "run", str(bench.folder), "--context", "x"]
    ended = subprocess.run(
        command, env=bench.environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 2
    assert "--context needs --kubeconfig" in ended.stderr


def test_an_unreadable_manifest_is_told_as_such(bench: Bench) -> None:
    (bench.folder / "pod.yaml").write_text("a: [")
    assert any("not a readable manifest" in line for line in changes_of(load_lab(str(bench.folder))))


@pytest.mark.parametrize("name", lab_names())
def test_each_lab_that_ships_says_what_it_changes(name: str) -> None:
    lines = list(changes_of(load_lab(name)))
    assert bool(lines) is (name != "mig-catalogue")
    assert not any("not readable" in line for line in lines)
