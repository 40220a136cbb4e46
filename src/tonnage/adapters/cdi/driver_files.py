"""The driver's libraries, programs and data below its root, without ever leaving that root.

Source of the lists: NVIDIA/nvidia-container-toolkit v1.20.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

from tonnage.adapters.vendors.driver_root import LIBRARY, LIBRARY_FOLDERS, place_inside, resolved_inside
from tonnage.model.devices.cdi import DriverFile, DriverFiles
from tonnage.model.devices.device_nodes import EXTRA_NODES

PROGRAM_FOLDERS: Final = ("usr/bin", "usr/local/bin", "usr/local/nvidia/bin", "opt/bin", "bin")
_CUDA: Final = "libcuda.so.1"
_PROGRAMS: Final = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
    "nvidia-xconfig",
)
_OTHER_LIBRARIES: Final = (
    "libnvidia-nvvm70.so.*",
    "libnvidia-egl-gbm.so.*.*",
    "libnvidia-egl-wayland.so.*.*",
    "libnvidia-egl-wayland2.so.*.*",
    "libnvidia-egl-xcb.so.*.*",
    "libnvidia-egl-xlib.so.*.*",
)
_DATA_FILES: Final = (
    "usr/share/glvnd/egl_vendor.d/10_nvidia.json",
    "usr/share/egl/egl_external_platform.d/09_nvidia_wayland2.json",
    "usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json",
    "usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
    "usr/share/egl/egl_external_platform.d/20_nvidia_xcb.json",
    "usr/share/egl/egl_external_platform.d/20_nvidia_xlib.json",
    "usr/share/nvidia/nvoptix.bin",
    "usr/share/X11/xorg.conf.d/10-nvidia.conf",
    "usr/share/X11/xorg.conf.d/nvidia-drm-outputclass.conf",
    "etc/OpenCL/vendors/nvidia.icd",
    "etc/vulkan/icd.d/nvidia_icd.json",
    "etc/vulkan/implicit_layer.d/nvidia_layers.json",
    "usr/share/vulkan/icd.d/nvidia_icd.json",
    "usr/share/vulkan/implicit_layer.d/nvidia_layers.json",
)
_XORG_FOLDERS: Final = (
    "usr/lib64/xorg/modules",
    "usr/lib/xorg/modules",
    "usr/lib/x86_64-linux-gnu/xorg/modules",
)
_SOCKETS: Final = ("run/nvidia-persistenced/socket", "run/nvidia-fabricmanager/socket")
_EXTRA_NAMES: Final = {
    "libcuda.so": "libcuda.so",
    "libGLX_nvidia.so": "libGLX_indirect.so.0",
    "libnvidia-opticalflow.so": "libnvidia-opticalflow.so",
    "libnvidia-vulkan-producer.so": "libnvidia-vulkan-producer.so",
    "libnvidia-allocator.so": "gbm/nvidia-drm_gbm.so",
    "libglxserver_nvidia.so": "libglxserver_nvidia.so",
}
"""Names under which programs look for libraries, whether or not the host has a link of that name."""
_MOST: Final = 20_000
_LONGEST_PROGRAM: Final = 64 << 20


def find_driver_files(root: Path, driver_root: Path, version: str) -> DriverFiles:
    """What there is; `root` stands before the node's /dev and /sys, `driver_root` before the driver's files.

    Without a version it is the one in the name of the driver's own library.
    """
    own = _first(driver_root, _CUDA) or _first(driver_root, LIBRARY)
    cuda = _first(driver_root, _CUDA)
    problems = [] if cuda else [f"no {_CUDA} under {driver_root}: containers do not get CUDA's library"]
    version = version or (own.name.partition(".so.")[2] if own else "")
    libraries = tuple(_libraries(driver_root, own.parent, version)) if own else ()
    return DriverFiles(
        libraries,
        tuple(_programs(driver_root)),
        tuple(_data_files(driver_root, version)),
        tuple(_sockets(driver_root)),
        "/" + str(cuda.parent.relative_to(driver_root)) if cuda else "",
        {address: nodes for address, nodes in _render(root) if nodes},
        {
            extra: paths_found
            for extra, paths in EXTRA_NODES.items()
            if (paths_found := tuple(_devices(root, paths)))
        },
        by_path=dict(_by_path(root)),
        version=version,
        problems=tuple(problems),
    )


def is_program(root: Path, path: str) -> bool:
    """Whether a file that can be run lies there."""
    file = resolved_inside(root, path)
    return file is not None and os.access(file, os.X_OK)


def words_in(root: Path, path: str, words: Iterable[str]) -> frozenset[str]:
    """Which of the words a program has in it, or the one beside it that it calls: `<path>.real`.

    A program is looked at and not run: it is the host's, with libraries that are not ours.
    """
    files = (resolved_inside(root, name) for name in (path, f"{path}.real"))
    return frozenset(word for file in files if file is not None for word in words if _has(file, word))


def _has(file: Path, word: str) -> bool:
    try:
        with file.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as content:
            return content.find(word.encode(), 0, _LONGEST_PROGRAM) >= 0
    except (OSError, ValueError):  # out of reach, or empty
        return False


def _first(root: Path, name: str) -> Path | None:
    candidates = (resolved_inside(root, f"{folder}/{name}") for folder in LIBRARY_FOLDERS)
    return next((file for file in candidates if file is not None), None)


def _libraries(root: Path, folder: Path, version: str) -> Iterator[DriverFile]:
    """Libraries of that version in one folder and its vdpau/, with the links that lead to them."""
    links, files = dict[str, str](), list[str]()
    for name in _names(folder):
        if ".so" not in name:
            continue
        try:
            links[name] = (folder / name).readlink().name
        except OSError:
            if any(fnmatchcase(name, pattern) for pattern in _OTHER_LIBRARIES) or name.endswith(
                f".so.{version}"
            ):
                files.append(name)
    leading = dict[str, list[str]]()
    for name in links:
        end, steps = name, 0
        while end in links and steps < len(links):
            end, steps = links[end], steps + 1
        leading.setdefault(end, []).append(name)
    for name in files:
        if resolved_inside(folder, name) is not None:
            path = _below(root, folder / name)
            names = {_below(root, folder / link) for link in leading.get(name, ())}
            yield DriverFile(path, path, tuple(sorted(names.union(_extra_names(path, version)))))
    if folder.name != "vdpau":
        inner = place_inside(root, _below(root, folder / "vdpau"))
        if inner is not None:
            yield from _libraries(root, inner, version) if inner.name == "vdpau" else ()


def _programs(root: Path) -> Iterator[DriverFile]:
    for name in _PROGRAMS:
        candidates = (resolved_inside(root, f"{folder}/{name}") for folder in PROGRAM_FOLDERS)
        real = next((file for file in candidates if file is not None), None)
        if real is not None:
            yield DriverFile(f"/usr/bin/{name}", _below(root, real))


def _data_files(root: Path, version: str) -> Iterator[DriverFile]:
    firmware = f"lib/firmware/nvidia/{version}"
    place = place_inside(root, firmware) if version else None
    patterns = ("gsp*.bin", "ucodes*.bin")
    present = _names(place) if place else []
    names = [name for name in present if any(fnmatchcase(name, pattern) for pattern in patterns)]
    xorg = ("drivers/nvidia_drv.so", f"extensions/libglxserver_nvidia.so.{version}")
    paths = (
        *_DATA_FILES,
        *(f"{firmware}/{name}" for name in names),
        *(f"{folder}/{name}" for folder in _XORG_FOLDERS for name in xorg),
    )
    for path in paths:
        real = resolved_inside(root, path)
        if real is not None:
            yield DriverFile(f"/{path}", _below(root, real), _extra_names(f"/{path}", version))


def _extra_names(path: str, version: str) -> tuple[str, ...]:
    folder, _, name = path.rpartition("/")
    extra = _EXTRA_NAMES.get(name.removesuffix(f".{version}")) if version else None
    return (f"{folder}/{extra}",) if extra and name.endswith(version) else ()


def _sockets(root: Path) -> Iterator[DriverFile]:
    for path in _SOCKETS:
        place = place_inside(root, path)
        if place is not None and _kind(place, stat.S_ISSOCK):
            yield DriverFile(f"/{path}", _below(root, place))


def _render(root: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The graphics nodes of NVIDIA's devices by PCI address."""
    devices = root / "sys/bus/pci/devices"
    for address in sorted(_names(devices)):
        names = sorted(_names(devices / address / "drm"))
        there = [name for name in names if _kind(root / "dev/dri" / name, stat.S_ISCHR)]
        yield (
            address.lower(),
            tuple(f"/dev/dri/{name}" for name in there if name.startswith(("card", "renderD"))),
        )


def _by_path(root: Path) -> Iterator[tuple[str, str]]:
    """Graphics nodes and the links to them that have PCI addresses for names."""
    folder = "dev/dri/by-path"
    for name in _names(root / folder):
        try:
            end = (root / folder / name).readlink().name
        except OSError:
            continue
        if name.startswith("pci-") and end.startswith(("card", "renderD")):
            yield f"/dev/dri/{end}", f"/{folder}/{name}"


def _devices(root: Path, patterns: tuple[str, ...]) -> Iterator[str]:
    for pattern in patterns:
        folder, _, name_pattern = pattern.lstrip("/").rpartition("/")
        for name in sorted(_names(root / folder)):
            if fnmatchcase(name, name_pattern) and _kind(root / folder / name, stat.S_ISCHR):
                yield f"/{folder}/{name}"


def _kind(path: Path, is_kind: Callable[[int], bool]) -> bool:
    try:
        return is_kind(path.stat().st_mode)
    except OSError:
        return False


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry, _ in zip(entries, range(_MOST), strict=False))
    except OSError:
        return []


def _below(root: Path, path: Path) -> str:
    return f"/{path.relative_to(root)}"
