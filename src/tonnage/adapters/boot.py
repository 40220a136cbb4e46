"""The boot of the machine. Little is loaded for it: the programs between the agent and a driver ask, too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_LONGEST: Final = 64


def boot_id(root: Path) -> str:
    """Identifies the machine's boot; empty where the kernel does not say."""
    try:
        # A pipe in its place must not make us wait.
        handle = os.open(root / "proc/sys/kernel/random/boot_id", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return (file.read(_LONGEST) or b"").decode("ascii", "replace").strip()
    except OSError:
        return ""
