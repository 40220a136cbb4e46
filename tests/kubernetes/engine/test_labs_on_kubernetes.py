"""Every lab that ships, steps unchanged, on a genuine control plane; covers the cases they name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.cli.locations.labs_and_scenarios import lab_names, load_lab
from tonnage.cli.locations.state import StateFolder

pytestmark = pytest.mark.kubernetes


def _tonnage(state: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tonnage", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "TONNAGE_STATE": str(state), **environment},
        check=False,
        timeout=600,
    )


class Clusters:
    """A cluster of each scenario, started when the first lab asks for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._states: dict[str, Path] = {}

    def of(self, scenario: str) -> Path:
        """Its state folder."""
        if scenario not in self._states:
            state = self._folder / scenario
            started = _tonnage(state, "up", "--engine", "kubernetes", "--scenario", scenario, "--detach")
            assert started.returncode == 0, started.stderr
            self._states[scenario] = state
        return self._states[scenario]

    def end(self) -> None:
        for state in self._states.values():
            owner = StateFolder(state).owner()
            if _tonnage(state, "down").returncode and owner:
                with suppress(ProcessLookupError):
                    os.kill(owner, signal.SIGKILL)


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        clusters = Clusters(Path(folder))
        yield clusters
        clusters.end()


@pytest.mark.sampled("labs on a genuine control plane, with each kubectl")
@pytest.mark.parametrize("version", ["1.35", "1.37"])
@pytest.mark.parametrize("name", lab_names())
def test_a_lab_passes_on_a_genuine_control_plane(name: str, version: str, clusters: Clusters) -> None:
    state = clusters.of(load_lab(name).lab.scenario)
    ended = _tonnage(state, "lab", "run", name, "-o", "json", TONNAGE_KUBECTL=str(kubectl_binary(version)))
    assert ended.stdout, ended.stderr
    assert "Starting" not in ended.stderr, "it ran on a cluster of its own"
    report = json.loads(ended.stdout)
    failed = [
        step for step in (*report["steps"], *report["cleanup"]) if not step["passed"] and not step["skipped"]
    ]
    assert not failed, json.dumps(failed, indent=2)
    assert (ended.returncode, report["passed"]) == (0, True)


PRETENDED: Final = "The nodes are pretended ones on every engine"


def test_the_labs_that_say_that_their_nodes_are_pretended(clusters: Clusters) -> None:
    """They are: a control plane runs for them, and neither a kubelet nor a container runtime."""
    labs = [load_lab(name).lab for name in lab_names()]
    saying = [lab for lab in labs if PRETENDED in " ".join(lab.description.split())]
    assert {lab.name for lab in saying} == {"driver-preflight", "driver-upgrade", "node-joins"}
    for scenario in {lab.scenario for lab in saying}:
        owner = StateFolder(clusters.of(scenario)).owner()
        assert owner is not None
        programs = set(_programs(owner))
        assert "kube-apiserver" in programs
        assert programs.isdisjoint({"kubelet", "containerd", "runc"})


def _programs(pid: int) -> Iterator[str]:
    """Of a process and its descendants."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _programs(int(child))
    yield Path(f"/proc/{pid}/exe").readlink().name
