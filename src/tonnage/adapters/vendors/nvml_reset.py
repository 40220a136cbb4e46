"""The reset of GPUs, by the driver's own program: NVML has no call for it. All of it may block."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tonnage.adapters.cdi.driver_files import PROGRAM_FOLDERS
from tonnage.adapters.vendors.driver_root import library_files, resolved_inside
from tonnage.adapters.vendors.nvml_mig import described
from tonnage.adapters.vendors.nvml_session import NvmlSession
from tonnage.model.actions.devices import ResetGpu
from tonnage.model.errors import HardwareError, Problem

RESET_S: Final = 120.0
"""Eight GPUs behind NVSwitches take most of a minute."""
_SMI: Final = "nvidia-smi"
_LONGEST: Final = 300


def reset_gpus(session: NvmlSession, driver_root: Path | None, step: ResetGpu) -> None:
    """Reset them together, with nobody of this process at the driver.

    Raises HardwareError: they were not, and why. Also where nobody can tell whether they were.
    """
    uuids = ",".join((step.uuid, *step.others))
    remedy = f"reset the GPUs while they are idle: {_SMI} --gpu-reset -i {uuids}, or restart the node"
    program, environment = _program(driver_root)
    if program is None:
        raise HardwareError(Problem(described(step), why=f"{_SMI} is missing", remedy=remedy))
    with session.released():
        try:
            done = subprocess.run(  # noqa: S603 - the driver's own program
                [program, "--gpu-reset", "-i", uuids],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=RESET_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            why = f"{_SMI} did not end within {RESET_S:.0f} s"
            raise HardwareError(Problem(described(step), why=why, remedy=remedy)) from None
        except OSError as error:
            why = f"{_SMI} does not run: {error.strerror}"
            raise HardwareError(Problem(described(step), why=why, remedy=remedy)) from None
    if done.returncode:
        output = " ".join(done.stdout[-4 * _LONGEST :].decode(errors="replace").split())[:_LONGEST]
        why = f"{_SMI} refuses ({done.returncode}): {output or 'it says nothing'}"
        raise HardwareError(Problem(described(step), why=why, remedy=remedy))


def _program(driver_root: Path | None) -> tuple[str | None, dict[str, str]]:
    """The program, and an environment in which it finds the driver's library."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    if driver_root is None:
        if "LD_LIBRARY_PATH" in os.environ:
            environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        return shutil.which(_SMI), environment
    there = (resolved_inside(driver_root, f"{folder}/{_SMI}") for folder in PROGRAM_FOLDERS)
    program = next((file for file in there if file is not None), None)
    library = next(library_files(driver_root), None)
    if library is not None:
        environment["LD_LIBRARY_PATH"] = str(library.parent)
    return None if program is None else str(program), environment
