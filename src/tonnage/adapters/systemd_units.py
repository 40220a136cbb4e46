"""Units of systemd on this machine."""

from __future__ import annotations

import shutil
import subprocess
from typing import Final

from tonnage.model.errors import HardwareError, Problem, words_of

_PATIENCE_S: Final = 120.0
_LONGEST: Final = 500


def restart_unit(unit: str) -> None:
    """Restart it and wait until it runs again.

    Raises:
        HardwareError: it does not, or there is no systemd.
    """
    command, program = f"systemctl restart {unit}", shutil.which("systemctl")
    if program is None:
        raise HardwareError(Problem(f"{command} cannot be run", why="systemctl is not installed"))
    try:
        done = subprocess.run(  # noqa: S603 - systemd's own program
            [program, "restart", unit], capture_output=True, text=True, check=False, timeout=_PATIENCE_S
        )
    except OSError as error:
        raise HardwareError(Problem(f"{command} cannot be run", why=words_of(error))) from None
    except subprocess.TimeoutExpired:
        why = f"it has not ended within {_PATIENCE_S:.0f} s"
        raise HardwareError(Problem(f"{unit} does not start", why=why, remedy=_look(unit))) from None
    if done.returncode:
        why = done.stderr.strip()[:_LONGEST]
        raise HardwareError(Problem(f"{command} failed", why=why, remedy=_look(unit)))


def _look(unit: str) -> str:
    return f"journalctl -u {unit}; tonnage runtime undo reverts the change"
