"""The genuine promtool."""

from __future__ import annotations

import subprocess
from pathlib import Path

from scripts.find_prometheus import monitoring_programs


def promtool(*arguments: str, folder: Path, given: str = "") -> str:
    """What it prints, `given` this to read; the test fails when it ends with another status than 0."""
    ended = subprocess.run(
        [monitoring_programs()["promtool"], *arguments],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
