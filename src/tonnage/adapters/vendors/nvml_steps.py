"""Steps that change a device through NVML. All of it may block."""

from __future__ import annotations

from tonnage.adapters.vendors.nvml_session import NvmlSession
from tonnage.model.actions.devices import SetComputeMode
from tonnage.model.errors import HardwareError, Problem


def set_compute_mode(session: NvmlSession, step: SetComputeMode) -> None:
    """Set the mode where it is another one. Raises HardwareError: it is refused, OSError: no driver."""
    with session.held() as nvml:
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(step.uuid)
            if nvml.nvmlDeviceGetComputeMode(handle) != step.mode:
                nvml.nvmlDeviceSetComputeMode(handle, int(step.mode))
        except nvml.NVMLError as error:
            denied = isinstance(error, nvml.NVMLError_NoPermission)
            remedy = "it needs the capability SYS_ADMIN; the chart's mps.root adds it" if denied else ""
            problem = f"the compute mode of {step.uuid} cannot be set to {step.mode.name}"
            raise HardwareError(Problem(problem, why=f"NVML: {error}", remedy=remedy)) from None
