"""The commands' page says what the commands say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "generate_cli_reference.py"


def test_the_reference_is_the_help() -> None:
    process = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
