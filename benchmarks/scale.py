"""Answers about 10,000 nodes and 100,000 pods, each the first that a fresh process gives, beside its bar."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.snapshot import NODES, PODS, write_cluster

MOST_ROUNDS = 3
_QUESTIONS = {
    "load": ("file to ready, s", 4, 1),
    "verdict": ("verdict and grouped reasons, ms", 10, 1000),
    "json": ("the JSON of all nodes, ms", 150, 1000),
    "preemption": ("whom it would preempt, ms", 50, 1000),
    "ten": ("verdict, preemption and ten remedies tried, ms", 50, 1000),
    "both": ("verdict, preemption and all 24 remedies tried, ms", 50, 1000),
}
"""What is asked, the bar, and how many of its unit a second has."""


def measure(rounds: int) -> dict[str, list[float]]:
    """Wall and CPU of each question, and the most memory that any of them took."""
    figures: dict[str, list[float]] = {}
    peak: list[float] = []
    folder = Path(tempfile.mkdtemp(prefix="tn-"))
    try:
        path = folder / "cluster.jsonl.gz"
        write_cluster(path, NODES, PODS)
        for name, (question, bar, unit) in _QUESTIONS.items():
            answers = [_asked(path, name) for _ in range(min(rounds, MOST_ROUNDS))]
            figures[f"{question} (wanted: under {bar})"] = [unit * wall for wall, _, _ in answers]
            figures["  of CPU" + f" ({name})"] = [unit * cpu for _, cpu, _ in answers]
            peak += [mb for _, _, mb in answers]
    finally:
        shutil.rmtree(folder)
    figures["peak memory of any of these, MB (wanted: under 700)"] = [max(peak)]
    return figures


def _asked(path: Path, name: str) -> tuple[float, float, float]:
    command = [sys.executable, "-m", "benchmarks.scale_answers", str(path), name]
    wall, cpu, mb = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return wall, cpu, mb
