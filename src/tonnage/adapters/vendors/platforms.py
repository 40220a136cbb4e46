"""Platforms of NVIDIA's whose GPUs are not reached by NVML and a device node each, told from what is seen.

Source: NVIDIA/go-nvlib, pkg/nvlib/info; the kernel of WSL names itself; Tegra's names its family in sysfs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tonnage.adapters.vendors.driver_root import LIBRARY
from tonnage.model.errors import Problem

_RELEASE: Final = "proc/sys/kernel/osrelease"
_WSL: Final = "microsoft-standard"
_PARAVIRTUAL: Final = "dev/dxg"
_TEGRA: Final = "etc/nv_tegra_release"
_FAMILY: Final = "sys/devices/soc0/family"
_INTEGRATED: Final = ("(nvgpu)", "NVIDIA Thor")
_LONGEST: Final = 200
INSTEAD: Final = (
    "keep the agent off such nodes (nodeSelector), and use NVIDIA's device plugin there, which offers the"
    " GPU as one device"
)


def refused_platform(root: Path) -> Problem | None:
    """Why no GPU of this machine is offered, though its driver may answer; None where they are."""
    if _WSL not in _text(root / _RELEASE).lower() and not (root / _PARAVIRTUAL).exists():
        return None
    why = "all its GPUs are behind the one device /dev/dxg: a container gets all or none"
    return Problem("Tonnage does not support GPUs under WSL", str(root / _RELEASE), why, INSTEAD)


def refused_driver(root: Path, driver_root: Path | None, error: BaseException) -> Problem:
    """Why NVML cannot be used where it raised this."""
    if is_tegra(root):
        return Problem("Tonnage does not offer Tegra GPUs", why=f"NVML: {error}", remedy=INSTEAD)
    visible = "visible to this process" if driver_root is None else f"under {driver_root}"
    remedy = f"check that the NVIDIA driver is loaded, and that {LIBRARY} is {visible}"
    return Problem(f"NVML: {error}", remedy=remedy)


def is_tegra(root: Path) -> bool:
    """Whether the machine is a Jetson or its like."""
    return (root / _TEGRA).exists() or _text(root / _FAMILY).strip().lower() == "tegra"


def is_integrated(product: str) -> bool:
    """Whether a GPU is part of a Tegra processor: without UUID, memory or node of its own."""
    return any(name in product for name in _INTEGRATED)


def _text(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(_LONGEST)
    except OSError:
        return ""
