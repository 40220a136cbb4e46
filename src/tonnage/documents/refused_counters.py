"""Fields that DCGM knows and Tonnage does not serve: why, and what there is instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CounterRefusal:
    """Why a field is not served, and what to do."""

    why: str
    remedy: str


_NO_GPU: Final = CounterRefusal(
    "NVML reads GPUs alone, not switches, processors or network cards", "leave the line out"
)
_DIAGNOSTICS: Final = CounterRefusal("DCGM's own diagnostics make it", "run dcgmi diag")
_OF_VGPU: Final = CounterRefusal("it is of vGPUs and their sessions, which no container has", "leave it out")
_NO_NUMBER: Final = CounterRefusal("it is a list or a structure, no number", "leave the line out")
_OF_DCGM: Final = CounterRefusal("it is state of DCGM, which Tonnage does without", "leave the line out")
_REGISTERS: Final = CounterRefusal(
    "it is in registers of the link, which need a call that Tonnage does not make",
    "use the counters DCGM_FI_DEV_NVLINK_COUNT_*",
)
_PLACES: Final = CounterRefusal(
    "it is a list or a structure, no number", "tonnage topo NODE shows what is near"
)
_EACH_LINK: Final = CounterRefusal(
    "it has no row for a link", "use the field with the number of the link in its name, such as ..._L0"
)
_LINK_STATE: Final = CounterRefusal(
    "links that are down have no rows", "tonnage doctor tells of them, and the alert on NVLink errors"
)
_LINK_ERRORS: Final = CounterRefusal(
    "DCGM 4.6 gives it no value either", "count Xid 74 by DCGM_EXP_XID_ERRORS_COUNT"
)

_NAMES: Final[Mapping[str, CounterRefusal]] = {
    "DCGM_EXP_GPU_HEALTH_STATUS": CounterRefusal(
        "DCGM alone makes it", "the page has tonnage_gpu_health without it"
    ),
    "DCGM_FI_DEV_P2P_NVLINK_STATUS": CounterRefusal("it is a list", "use DCGM_EXP_P2P_STATUS"),
    "DCGM_FI_DEV_NVLINK_P2P_STATUS": CounterRefusal("it is a list", "use DCGM_EXP_P2P_STATUS"),
    "DCGM_FI_DEV_MIG_MAX_SLICES": CounterRefusal(
        "DCGM alone makes it", "the page has tonnage_gpu_mig_placements_free without it"
    ),
    "DCGM_FI_DEV_NVLINK_GET_STATE": _LINK_STATE,
    "DCGM_FI_DEV_NVLINK_ERROR": _LINK_ERRORS,
    "DCGM_FI_DEV_GPU_NVLINK_ERRORS": _LINK_ERRORS,
}
_BEGINNINGS: Final[Mapping[str, CounterRefusal]] = {
    **dict.fromkeys(("DCGM_FI_DEV_CPU_AFFINITY_", "DCGM_FI_DEV_MEM_AFFINITY_"), _PLACES),
    **dict.fromkeys(("DCGM_FI_DEV_MEMORY_AFFINITY_", "DCGM_FI_GPU_TOPOLOGY_"), _PLACES),
    **dict.fromkeys(
        ("DCGM_FI_SYSTEM_PCI_TOPOLOGY", "DCGM_FI_SYSTEM_NVLINK_TOPOLOGY", "DCGM_FI_SYSTEM_GPU_AFFINITY"),
        _PLACES,
    ),
    **dict.fromkeys(
        ("DCGM_FI_DEV_NVSWITCH_", "DCGM_FI_DEV_SXID_", "DCGM_FI_DEV_CPU_", "DCGM_FI_DEV_CONNECTX_"), _NO_GPU
    ),
    **dict.fromkeys(("DCGM_FI_DEV_SYSIO_", "DCGM_FI_DEV_MODULE_POWER_", "DCGM_FI_IMEX_"), _NO_GPU),
    "DCGM_FI_DEV_DIAG_": _DIAGNOSTICS,
    **dict.fromkeys(
        (
            *("DCGM_FI_DEV_VGPU_", "DCGM_FI_DEV_SUPPORTED_TYPE_", "DCGM_FI_DEV_SUPPORTED_VGPU_"),
            *("DCGM_FI_DEV_CREATABLE_VGPU_", "DCGM_FI_DEV_ENC_STATS", "DCGM_FI_DEV_FBC_"),
        ),
        _OF_VGPU,
    ),
    **dict.fromkeys(("DCGM_FI_DEV_NVLINK_PPCNT_", "DCGM_FI_DEV_NVLINK_PPRM_"), _REGISTERS),
    **dict.fromkeys(
        (
            *("DCGM_FI_DEV_SUPPORTED_CLOCKS", "DCGM_FI_DEV_CLOCKS_SUPPORTED", "DCGM_FI_DEV_ACCOUNTING_"),
            *("DCGM_FI_DEV_PROCESS_ACCOUNTING_", "DCGM_FI_DEV_MIG_ATTRIBUTES", "DCGM_FI_DEV_MIG_GI_INFO"),
            *("DCGM_FI_DEV_MIG_CI_INFO", "DCGM_FI_DEV_BOARD_POWER_PROFILE_", "DCGM_FI_DEV_CUDA_VISIBLE_"),
            *("DCGM_FI_DEV_REQUESTED_POWER_PROFILE_", "DCGM_FI_DEV_ENFORCED_POWER_PROFILE_"),
            *("DCGM_FI_DEV_VALID_POWER_PROFILE_", "DCGM_FI_CUDA_GPU_VISIBLE_"),
        ),
        _NO_NUMBER,
    ),
    **dict.fromkeys(
        (
            *("DCGM_FI_SYSTEM_", "DCGM_FI_DEV_COUNT", "DCGM_FI_PROCESS_NAME", "DCGM_FI_SYNC_BOOST"),
            *("DCGM_FI_BIND_UNBIND_EVENT", "DCGM_FI_UNKNOWN", "DCGM_FI_INTERNAL_", "DCGM_FI_FIRST_"),
            *("DCGM_FI_LAST_", "DCGM_FI_MAX_"),
        ),
        _OF_DCGM,
    ),
}


def refusal_of(name: str) -> CounterRefusal | None:
    """Why this field is not served; None: DCGM does not know it either, or it is served."""
    if named := _NAMES.get(name):
        return named
    if "_PER_LINK" in name:
        return _EACH_LINK
    begun = (refusal for beginning, refusal in _BEGINNINGS.items() if name.startswith(beginning))
    return next(begun, None)
