"""The driver's library where the driver's files are mounted: found and loaded without leaving that root."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from _ctypes import dlclose
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tonnage.model.devices.cdi import DRIVER_ROOTS

LIBRARY: Final = "libnvidia-ml.so.1"
LIBRARY_FOLDERS: Final = (
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
_LONGEST_PATH: Final = 4095
_MOST_LINKS: Final = 40
_ELF64: Final = b"\x7fELF\x02\x01"
_ELF_HEADER: Final = struct.Struct("<32sQ14xHH6x")
"""As far as it matters here: identity, where the table of segments is, its entry's size, their number."""
_ELF_SEGMENT: Final = struct.Struct("<8sQ16xQ")
"""As far as it matters here: kind and flags, where it begins in the file, its length there."""


class DriverLibrary:
    """The library under a driver root. Not for two threads at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._loaded: ctypes.CDLL | None = None
        self._stamp = ""

    def load(self, nvml: Any) -> None:
        """Load the library and give it to the bindings, which look for one by name only if they have none.

        One that was loaded before and has been replaced meanwhile is let go of: it would refuse to speak to
        the new driver. So only call this while the bindings are not initialised.

        Raises:
            OSError: it is not there (yet), or cannot be loaded.
        """
        candidates = {_stamp(file): file for file in library_files(self._root)}
        if self._stamp not in candidates:
            self._unload(nvml)
            self._loaded, self._stamp = self._first(candidates)
        if nvml.nvmlLib is not self._loaded:
            nvml._nvmlGetFunctionPointer_cache.clear()  # of another's library, which may be loaded still
        nvml.nvmlLib = self._loaded

    def _first(self, candidates: Mapping[str, Path]) -> tuple[ctypes.CDLL, str]:
        """The first that can be loaded, with its stamp."""
        refusal = OSError(f"no {LIBRARY} under {self._root}")
        for stamp, file in candidates.items():
            try:
                _check_whole(file)
                return ctypes.CDLL(str(file)), stamp
            except OSError as error:  # of another architecture, or half written: the next may do
                refusal = error
        raise refusal

    def _unload(self, nvml: Any) -> None:
        if self._loaded is not None:
            handle, self._loaded, self._stamp = self._loaded._handle, None, ""
            nvml.nvmlLib = None
            nvml._nvmlGetFunctionPointer_cache.clear()
            dlclose(handle)


def library_files(root: Path) -> Iterator[Path]:
    """The real files of the library under `root`, in the order in which to try them."""
    tried: set[Path] = set()
    for folder in LIBRARY_FOLDERS:
        file = resolved_inside(root, f"{folder}/{LIBRARY}")
        if file is not None and file not in tried:
            tried.add(file)
            yield file


def driver_root_of(host: Path) -> str:
    """The first of the usual roots below `host` that has the driver's library; `/` when none has.

    The library may lie elsewhere then, where only the machine's own loader looks.
    """
    roots = (root for root in DRIVER_ROOTS if any(library_files(host / root.lstrip("/"))))
    return next(roots, DRIVER_ROOTS[0])


def _check_whole(file: Path) -> None:
    """Raise OSError for a library that is just being copied: to load it would end this process (SIGBUS).

    Source: the ELF-64 object file format; the other kinds are for the loader to refuse.
    """
    with file.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        head = stream.read(_ELF_HEADER.size)
        if not head.startswith(_ELF64):
            return
        needed = _ELF_HEADER.size
        if len(head) == _ELF_HEADER.size:
            _, at, entry, count = _ELF_HEADER.unpack(head)
            needed = at + entry * count
            stream.seek(at)
            for segment in _segments(stream.read(entry * count), entry):
                _, offset, length = _ELF_SEGMENT.unpack_from(segment)
                needed = max(needed, offset + length)
    if size < needed:
        raise OSError(f"{file} is incomplete: {size} of {needed} bytes")


def _segments(table: bytes, entry: int) -> Iterator[bytes]:
    for at in range(0, len(table) - _ELF_SEGMENT.size + 1, max(entry, _ELF_SEGMENT.size)):
        yield table[at : at + _ELF_SEGMENT.size]


def _stamp(file: Path) -> str:
    """Tells a file from its successor at the same path."""
    status = file.stat()
    return f"{file}:{status.st_dev}:{status.st_ino}:{status.st_mtime_ns}"


def resolved_inside(root: Path, path: str) -> Path | None:
    """The file that `path` names for a process whose root folder is `root`; None if there is no file.

    Symbolic links are followed as that process would: absolute ones start at `root`, and `..` ends there.
    """
    place = place_inside(root, path)
    try:
        return place if place is not None and stat.S_ISREG(place.lstat().st_mode) else None
    except OSError:
        return None


def place_inside(root: Path, path: str) -> Path | None:
    """As `resolved_inside`, of whatever kind it is, and whether or not the last part exists.

    What no file system takes for a path (a NUL in it, more than 4,095 characters) names nothing.
    """
    if "\0" in path or len(path) > _LONGEST_PATH:
        return None
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
    return root.joinpath(*done)
