"""The files of a pretended driver, for CDI specs to find: their names say everything that they have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_FOLDER: Final = "usr/lib/x86_64-linux-gnu"
_LIBRARIES: Final = ("libcuda.so", "libnvidia-ml.so")
_VERSION: Final = re.compile(r"\d{1,6}(\.\d{1,6}){1,3}")


def install_driver(root: Path, version: str) -> None:
    """CUDA's and NVML's libraries of that version and the links by which programs ask for them, below a root.

    Of a version that no driver has there are none.
    """
    if not _VERSION.fullmatch(version):
        return
    folder = root / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for library in _LIBRARIES:
        file = folder / f"{library}.{version}"
        file.touch()
        (folder / f"{library}.1").symlink_to(file.name)
