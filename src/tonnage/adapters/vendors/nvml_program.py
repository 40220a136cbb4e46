"""The driver's own program, for what NVML has no call for. All of it may block."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tonnage.adapters.cdi.driver_files import PROGRAM_FOLDERS
from tonnage.adapters.vendors.driver_root import library_files, resolved_inside
from tonnage.model.actions.devices import SetTimeSlice
from tonnage.model.errors import HardwareError, Problem

SMI: Final = "nvidia-smi"
SLICE_S: Final = 10.0
_LONGEST: Final = 300


def set_time_slice(driver_root: Path | None, step: SetTimeSlice) -> None:
    """Set it. Raises HardwareError: it is refused, and why."""
    arguments = ("compute-policy", "-i", step.uuid, "--set-timeslice", str(int(step.interval)))
    remedy = f"try it: {SMI} {' '.join(arguments)}"
    why = smi_refusal(driver_root, arguments, SLICE_S)
    if why:
        problem = f"the time slice of {step.uuid} cannot be set to {step.interval.name.title()}"
        raise HardwareError(Problem(problem, why=why, remedy=remedy))


def smi_refusal(driver_root: Path | None, arguments: Sequence[str], patience_s: float) -> str:
    """Why the program did not do it, or nobody can tell; empty: it did."""
    program, environment = _program(driver_root)
    if program is None:
        return f"{SMI} is missing"
    try:
        done = subprocess.run(  # noqa: S603 - the driver's own program
            [program, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=patience_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{SMI} did not end within {patience_s:.0f} s"
    except OSError as error:
        return f"{SMI} does not run: {error.strerror}"
    if not done.returncode:
        return ""
    output = " ".join(done.stdout[-4 * _LONGEST :].decode(errors="replace").split())[:_LONGEST]
    return f"{SMI} refuses ({done.returncode}): {output or 'it says nothing'}"


def _program(driver_root: Path | None) -> tuple[str | None, dict[str, str]]:
    """The program, and an environment in which it finds the driver's library."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    if driver_root is None:
        if "LD_LIBRARY_PATH" in os.environ:
            environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        return shutil.which(SMI), environment
    there = (resolved_inside(driver_root, f"{folder}/{SMI}") for folder in PROGRAM_FOLDERS)
    program = next((file for file in there if file is not None), None)
    library = next(library_files(driver_root), None)
    if library is not None:
        environment["LD_LIBRARY_PATH"] = str(library.parent)
    return None if program is None else str(program), environment
