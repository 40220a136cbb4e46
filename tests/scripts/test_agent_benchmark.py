"""The benchmark of the agent beside a plugin that never comes back to kubelet, and thinks long."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import agent, plugin_kubelet
from benchmarks.plugin_sides import Node, Start
from benchmarks.table import print_figures

ROOT = Path(__file__).resolve().parents[2]


def slow_plugin(asked: Path, thinking_s: float) -> Start:
    """Starts the stand-in, which notes in `asked` each preference that it is asked for."""

    def start(node: Node) -> subprocess.Popen[bytes]:
        files = [str(node.kubelet.plugins), str(node.root / "ids"), str(asked)]
        return subprocess.Popen(
            [sys.executable, "-m", "support.slow_plugin", *files, str(thinking_s)],
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        )

    return start


def test_a_plugin_that_never_comes_back_is_noted_so_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(plugin_kubelet, "NEVER_S", 0.2)
    sides = {"plugin": slow_plugin(tmp_path / "asked", 0)}
    assert print_figures({"restarts": lambda rounds: agent.restarts(sides, rounds)}, (), rounds=3) == 0
    _, anew, folder = capsys.readouterr().out.splitlines()
    never = ["never", "never", "never", "1"]
    assert anew.startswith("kubelet restarts: socket to Register, plugin, ms")
    assert folder.startswith("  and its folder was made anew, plugin, ms")
    assert (anew.removesuffix("NOT MET").split()[-4:], folder.split()[-4:]) == (never, never)


def test_a_plugin_that_thinks_long_about_a_preference_is_asked_once_for_each_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plugin_kubelet, "SLOW_MS", 50.0)
    asked = tmp_path / "asked"
    figures = agent.answers({"plugin": slow_plugin(asked, 0.1)}, rounds=2, gpus=8, replicas=1, calls=25)
    assert asked.read_text().split() == ["1", "4"]
    for size in (1, 4):
        first, second = figures[f"preferred {size}, 8 GPUs, plugin: p50, ms"]
        assert first == second >= 100
    assert len(figures["Allocate, 8 GPUs, plugin: p99 by p50"]) == 2
