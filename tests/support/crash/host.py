"""The root folder of a node's host, as far as programs run below it: a shell, and a systemctl of its own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

UNIT: Final = "dcgm.service"
_HEALED: Final = "healed"
_SHELL: Final = Path("/bin/sh")
_SYSTEMCTL: Final = """\
#!/bin/sh
for unit; do :; done
case "$1" in
show) read state < "/units/$unit" && echo "$state" ;;
stop) echo inactive > "/units/$unit" ;;
start) echo active > "/units/$unit" ;;
*) echo "no such command: $1"; exit 1 ;;
esac
"""
CLIENTS: Final = json.dumps({"version": "v1", "systemd-services": [UNIT]})


def hooks_text(*, fails: bool) -> str:
    """Hooks that run; with `fails` one does not end well before the host is healed."""
    good = {"command": "/bin/sh", "args": ["-c", "echo $TONNAGE_MIG_GPUS >> /ran"]}
    picky = {"command": "/bin/sh", "args": ["-c", f"test -e /{_HEALED}"]}
    hooks = {"apply-start": [good], "pre-apply-config": [picky if fails else good], "apply-exit": [good]}
    return json.dumps({"version": "v1", "hooks": hooks})


class Host:
    """One service runs on it. To run programs below it takes root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for file in (_SHELL, *_libraries(_SHELL)):
            there = root / str(file)[1:]
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, there)
        (root / "bin/systemctl").write_text(_SYSTEMCTL)
        (root / "bin/systemctl").chmod(0o755)
        (root / "units").mkdir()
        self.reset()

    def reset(self) -> None:
        """As it was in the beginning."""
        (self.root / _HEALED).unlink(missing_ok=True)
        (self.root / "units" / UNIT).write_text("active\n")

    def heal(self) -> None:
        """No hook fails any more."""
        (self.root / _HEALED).touch()

    def stopped(self) -> str:
        """What does not run, though it should."""
        state = (self.root / "units" / UNIT).read_text().strip()
        return "" if state == "active" else f"{UNIT} is {state or 'being changed'}"


def _libraries(program: Path) -> list[Path]:
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True, timeout=60).stdout
    return [Path(found) for found in re.findall(r"(/\S+) \(0x", said)]
