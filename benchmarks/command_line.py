"""How long `tonnage --help` takes, beside a bare interpreter and kubectl."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tonnage.cli.locations.kubectl import kubectl_binary


def measure(rounds: int) -> dict[str, list[float]]:
    """Wall seconds of whole processes, taken in turn."""
    commands = {
        "python -c pass, s": [sys.executable, "-c", "pass"],
        "kubectl --help, s": [str(kubectl_binary("1.35")), "--help"],
        "tonnage --help, s (wanted: under 0.100)": [str(Path(sys.executable).with_name("tonnage")), "--help"],
    }
    figures: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds + 1):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            figures[name].append(time.perf_counter() - started)
    return {name: values[1:] for name, values in figures.items()}
