"""The driver's library where the driver's files are mounted: found and loaded without leaving that root."""

from __future__ import annotations

import ctypes
import stat
from _ctypes import dlclose
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

LIBRARY: Final = "libnvidia-ml.so.1"
_FOLDERS: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/nvidia/current",
    "usr/lib/aarch64-linux-gnu/nvidia/current",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "lib/x86_64-linux-gnu/nvidia/current",
    "lib/aarch64-linux-gnu/nvidia/current",
    "usr/lib",
    "lib",
    "usr/local/nvidia/lib64",
    "usr/local/nvidia/lib",
    "usr/lib/wsl/lib",
)
"""First those where NVIDIA's container toolkit looks, in its order; then where other systems have it."""
_MOST_LINKS: Final = 40


class DriverLibrary:
    """The library under a driver root. Not for two threads at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._loaded: ctypes.CDLL | None = None
        self._stamp = ""

    def load(self, nvml: Any) -> None:
        """Load the library so that the bindings, which ask for it by its name, get this one.

        One that was loaded before and has been replaced meanwhile is let go of: its successor would refuse
        to speak to the new driver. So only call this while the bindings are not initialised.

        Raises:
            OSError: it is not there (yet), or cannot be loaded.
        """
        candidates = {_stamp(file): file for file in found(self._root)}
        if self._stamp in candidates:
            return
        self._unload(nvml)
        refusal = OSError(f"no {LIBRARY} under {self._root}")
        for stamp, file in candidates.items():
            try:
                self._loaded = ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
            except OSError as error:  # of another architecture, or half written: the next may do
                refusal = error
                continue
            self._stamp = stamp
            return
        raise refusal

    def _unload(self, nvml: Any) -> None:
        if self._loaded is None:
            return
        handles = [self._loaded._handle]
        if nvml.nvmlLib is not None:
            handles.append(nvml.nvmlLib._handle)
            nvml.nvmlLib = None  # the bindings look for the library once only, and remember its functions
            nvml._nvmlGetFunctionPointer_cache.clear()
        self._loaded, self._stamp = None, ""
        for handle in handles:
            dlclose(handle)


def found(root: Path) -> Iterator[Path]:
    """The real files of the library under `root`, in the order in which to try them."""
    seen: set[Path] = set()
    for folder in _FOLDERS:
        file = resolved_inside(root, f"{folder}/{LIBRARY}")
        if file is not None and file not in seen:
            seen.add(file)
            yield file


def _stamp(file: Path) -> str:
    """Tells a file from its successor at the same path."""
    status = file.stat()
    return f"{file}:{status.st_dev}:{status.st_ino}:{status.st_mtime_ns}"


def resolved_inside(root: Path, path: str) -> Path | None:
    """The file that `path` names for a process whose root folder is `root`; None if there is no file.

    Symbolic links are followed as that process would: absolute ones start at `root`, and `..` ends there.
    """
    todo, done, links = path.split("/")[::-1], list[str](), 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            del done[-1:]
            continue
        here = root.joinpath(*done, part)
        try:
            target = str(here.readlink())
        except FileNotFoundError:
            return None
        except OSError:  # no link
            done.append(part)
            continue
        links += 1
        if links > _MOST_LINKS:
            return None
        if target.startswith("/"):
            done.clear()
        todo += target.split("/")[::-1]
    file = root.joinpath(*done)
    try:
        return file if stat.S_ISREG(file.lstat().st_mode) else None
    except OSError:
        return None
