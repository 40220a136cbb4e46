"""How long `tonnage doctor` looks at a node with eight GPUs, a driver that answers, an agent and kubelet."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.driver_root import make_driver_root
from support.nvml.state import h100_node
from support.sick_node import SickNode


def measure(rounds: int) -> dict[str, list[float]]:
    """Wall and CPU seconds of whole processes, those that they start included."""
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    wall: list[float] = []
    busy: list[float] = []
    try:
        with ExitStack() as ends:
            SickNode(folder, ends)
            make_driver_root(folder, h100_node(8))
            words = [str(Path(sys.executable).with_name("tonnage")), "doctor", "--root", str(folder)]
            for _ in range(rounds + 1):
                before, started = os.times(), time.perf_counter()
                subprocess.run(words, check=False, stdout=subprocess.DEVNULL)
                wall.append(time.perf_counter() - started)
                after = os.times()
                busy.append(sum(after[2:4]) - sum(before[2:4]))
    finally:
        shutil.rmtree(folder)
    return {"a node with 8 GPUs, s (wanted: under 1)": wall[1:], "CPU of that, s": busy[1:]}
