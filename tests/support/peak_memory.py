"""How much memory a program of its own takes at most."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

_TAIL: Final = """
import re
print("peak", re.search(r"VmHWM:\\s+([0-9]+)", open("/proc/self/status").read())[1])
"""
"""Linux says it of what runs since the last exec; `ru_maxrss` has the parent's memory in it."""


def peak_mib(program: str, *arguments: str, text: str = "") -> tuple[int, str]:
    """The peak in MiB of a Python program with `text` as its input, and what it said on stderr."""
    asked = subprocess.run(
        [sys.executable, "-c", program + _TAIL, *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return int(asked.stdout.split()[-1]) >> 10, asked.stderr
