"""The reset of GPUs, by the driver's own program: NVML has no call for it. All of it may block."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tonnage.adapters.vendors.nvml_mig import described
from tonnage.adapters.vendors.nvml_program import SMI, smi_refusal
from tonnage.adapters.vendors.nvml_session import NvmlSession
from tonnage.model.actions.devices import ResetGpu
from tonnage.model.errors import HardwareError, Problem

RESET_S: Final = 120.0
"""Eight GPUs behind NVSwitches take most of a minute."""


def reset_gpus(session: NvmlSession, driver_root: Path | None, step: ResetGpu) -> None:
    """Reset them together, with nobody of this process at the driver.

    Raises HardwareError: they were not, and why. Also where nobody can tell whether they were.
    """
    uuids = ",".join((step.uuid, *step.others))
    remedy = f"reset the GPUs while they are idle: {SMI} --gpu-reset -i {uuids}, or restart the node"
    with session.released():
        why = smi_refusal(driver_root, ("--gpu-reset", "-i", uuids), RESET_S)
    if why:
        raise HardwareError(Problem(described(step), why=why, remedy=remedy))
