"""A host with a driver as an installer leaves it, for which NVIDIA's toolkit was asked for a CDI spec."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import Final

from support.driver_root import LIBRARIES, make_driver_root
from support.nvml.state import DriverState, FakeGpu, FakeMig

STATE: Final = DriverState(
    (
        FakeGpu(0, "A100-40"),
        FakeGpu(1, "A100-40", mig_enabled=True, migs=(FakeMig("3g", 0, gi=1), FakeMig("3g", 4, gi=2))),
    )
)
_LIBRARIES: Final = {
    "libcuda": "1",
    "libcudadebugger": "1",
    "libEGL_nvidia": "0",
    "libGLX_nvidia": "0",
    "libnvidia-allocator": "1",
    "libnvidia-egl-gbm": "1",
    "libnvidia-opticalflow": "1",
    "libnvidia-ptxjitcompiler": "1",
    "vdpau/libvdpau_nvidia": "1",
}
"""With the number in their sonames."""
_PROGRAMS: Final = (
    *("nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control"),
    *("nvidia-cuda-mps-server", "nvidia-imex", "nvidia-imex-ctl", "nvidia-xconfig"),
)
_FILES: Final = (
    f"lib/firmware/nvidia/{STATE.driver_version}/gsp_ga10x.bin",
    "etc/vulkan/icd.d/nvidia_icd.json",
    "usr/share/glvnd/egl_vendor.d/10_nvidia.json",
    "usr/share/nvidia/nvoptix.bin",
)
_GRAPHICS: Final = {"card1": "card", "renderD128": "render"}


def make_toolkit_root(folder: Path, *, whole: bool = False) -> Path:
    """`whole`: libraries that a loader takes, which needs a C compiler; else empty files."""
    root = make_driver_root(folder, STATE)
    for name, number in _LIBRARIES.items():
        file = root / LIBRARIES / f"{name}.so.{STATE.driver_version}"
        file.parent.mkdir(parents=True, exist_ok=True)
        soname = f"{file.name.partition('.')[0]}.so.{number}"
        if whole:
            words = ["cc", "-shared", "-nostdlib", "-x", "c", "-", f"-Wl,-soname,{soname}", "-o", str(file)]
            subprocess.run(words, input=b"int x;", check=True, timeout=60)
        else:
            file.touch()
        file.with_name(soname).symlink_to(file.name)
    (root / LIBRARIES / "libcuda.so").symlink_to("libcuda.so.1")
    (root / LIBRARIES / "gbm").mkdir()
    (root / LIBRARIES / "gbm/nvidia-drm_gbm.so").symlink_to("../libnvidia-allocator.so.1")
    for path in (*(f"usr/bin/{name}" for name in _PROGRAMS), *_FILES):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch(mode=0o755)
    _graphics(root)
    return root


def _graphics(root: Path) -> None:
    """Of the first GPU, in its two forms."""
    address = min(entry.name for entry in (root / "sys/bus/pci/devices").iterdir())
    by_path = root / "dev/dri/by-path"
    by_path.mkdir(parents=True)
    for number, (name, form) in enumerate(_GRAPHICS.items(), 1):
        (root / "sys/bus/pci/devices" / address / "drm" / name).mkdir(parents=True)
        (by_path / f"pci-{address}-{form}").symlink_to(f"../{name}")
        try:
            os.mknod(root / "dev/dri" / name, stat.S_IFCHR | 0o666, os.makedev(226, number))
        except PermissionError:
            (root / "dev/dri" / name).symlink_to("/dev/null")
