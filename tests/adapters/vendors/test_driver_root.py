"""The driver's library found, loaded and exchanged under a root of its own, by the system's real loader."""

from __future__ import annotations

import os
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from support.elf import answer, shared_object, store
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.driver_root import (
    LIBRARY,
    DriverLibrary,
    driver_root_of,
    library_files,
    resolved_inside,
)
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.model.errors import HardwareError

DEBIAN = "usr/lib/x86_64-linux-gnu"
REAL = f"{LIBRARY.removesuffix('.1')}.570.124.06"

Layout = dict[str, str]
"""By path: where a link leads, or empty for a file."""


def lay(root: Path, layout: Layout) -> Path:
    for path, target in layout.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if target:
            place.symlink_to(target)
        else:
            place.touch()
    return root


@pytest.mark.parametrize(
    ("layout", "asked", "leads_to"),
    [
        pytest.param({"a/f": ""}, "a/f", "a/f", id="a file"),
        pytest.param({"a/f": "", "a/l": "f"}, "a/l", "a/f", id="a link beside it"),
        pytest.param({"a/f": "", "b/l": "../a/f"}, "b/l", "a/f", id="a link to another folder"),
        pytest.param({"a/f": "", "b/l": "/a/f"}, "b/l", "a/f", id="an absolute link means the root's file"),
        pytest.param({"a/f": "", "b/l": "/etc/l", "etc/l": "../a/f"}, "b/l", "a/f", id="a chain of links"),
        pytest.param({"usr/lib/f": "", "lib": "usr/lib"}, "lib/f", "usr/lib/f", id="a folder that is a link"),
        pytest.param({"usr/lib/f": "", "lib": "/usr/lib"}, "lib/f", "usr/lib/f", id="absolutely"),
        pytest.param({"a/f": "", "b/l": "../../../../a/f"}, "b/l", "a/f", id="nothing lies above the root"),
        pytest.param({"a/f": ""}, "../a/./f", "a/f", id="not for the question either"),
        pytest.param({}, "a/f", None, id="nothing"),
        pytest.param({"a/l": "f"}, "a/l", None, id="a link to nothing"),
        pytest.param({"a/l": "l"}, "a/l", None, id="a link to itself"),
        pytest.param({"a": "b", "b": "a"}, "a/f", None, id="links in a circle"),
        pytest.param({"a/l": "/etc/passwd"}, "a/l", None, id="a file outside that is not inside"),
        pytest.param({"a/l": "../" * 30 + "etc/passwd"}, "a/l", None, id="the same by climbing"),
        pytest.param({"a/f/g": ""}, "a/f", None, id="a folder is no file"),
        pytest.param({"a": ""}, "a/f", None, id="a file is no folder"),
    ],
)
def test_links_are_followed_inside_the_root(
    tmp_path: Path, layout: Layout, asked: str, leads_to: str | None
) -> None:
    root = lay(tmp_path / "root", layout)
    assert resolved_inside(root, asked) == (root / leads_to if leads_to else None)


def test_a_fifo_in_the_place_of_the_library_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "usr/lib64").mkdir(parents=True)
    os.mkfifo(tmp_path / "usr/lib64" / LIBRARY)
    assert not list(library_files(tmp_path))


@pytest.mark.parametrize(
    ("layout", "files"),
    [
        pytest.param(
            {f"{DEBIAN}/{LIBRARY}": REAL, f"{DEBIAN}/{REAL}": ""}, [f"{DEBIAN}/{REAL}"], id="Debian"
        ),
        pytest.param(
            {f"usr/lib64/{LIBRARY}": REAL, f"usr/lib64/{REAL}": "", "lib64": "usr/lib64"},
            [f"usr/lib64/{REAL}"],
            id="Red Hat, where two folders are the same one",
        ),
        pytest.param({f"lib64/{LIBRARY}": ""}, [f"lib64/{LIBRARY}"], id="Google's own system"),
        pytest.param(
            {
                f"{DEBIAN}/{LIBRARY}": f"/etc/alternatives/{LIBRARY}",
                f"etc/alternatives/{LIBRARY}": f"/{DEBIAN}/nvidia/current/{LIBRARY}",
                f"{DEBIAN}/nvidia/current/{LIBRARY}": REAL,
                f"{DEBIAN}/nvidia/current/{REAL}": "",
            },
            [f"{DEBIAN}/nvidia/current/{REAL}"],
            id="Debian's own packages, by its alternatives",
        ),
        pytest.param(
            {f"usr/lib64/{LIBRARY}": "", f"{DEBIAN}/{LIBRARY}": "", f"lib/aarch64-linux-gnu/{LIBRARY}": ""},
            [f"usr/lib64/{LIBRARY}", f"{DEBIAN}/{LIBRARY}", f"lib/aarch64-linux-gnu/{LIBRARY}"],
            id="all there are, in the container toolkit's order",
        ),
        pytest.param({f"{DEBIAN}/libnvidia-ml.so": ""}, [], id="the name for linking alone is not enough"),
    ],
)
def test_the_library_is_found_where_systems_have_it(tmp_path: Path, layout: Layout, files: list[str]) -> None:
    assert list(library_files(lay(tmp_path, layout))) == [tmp_path / file for file in files]


def driver(devices: int, *, starts: int = 0) -> bytes:
    """A library with so many devices; its start gives the code."""
    functions = {"nvmlInitWithFlags": answer(starts), "nvmlDeviceGetCount_v2": store(devices)}
    return shared_object(LIBRARY, functions)


def last_segment_end(library: bytes) -> int:
    """Where the part of an ELF-64 file ends that is loaded; names and tables for debuggers follow."""
    at, entry, count = struct.unpack_from("<Q14xHH", library, 32)
    segments = (struct.unpack_from("<8sQ16xQ", library, at + number * entry) for number in range(count))
    return max(int(offset) + int(length) for _, offset, length in segments)


def system_library() -> bytes:
    """This process's own C library: as large as a driver's."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return next(Path(line.split()[-1]) for line in maps if "/libc.so" in line).read_bytes()


def install(root: Path, library: bytes, folder: str = DEBIAN) -> None:
    """As packages do: a file beside, then renamed, so that one in use stays whole."""
    place = root / folder / LIBRARY
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name("fresh")
    fresh.write_bytes(library)
    fresh.rename(place)


@pytest.fixture
async def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NvmlBackend]:
    """Over `tmp_path`; the bindings as in a fresh process, and the library gone from this one after it."""
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    made = NvmlBackend(SystemClock(), driver_root=tmp_path)
    yield made
    await made.close()
    assert made._session._driver is not None
    made._session._driver._unload(pynvml)


async def problems(backend: NvmlBackend) -> list[str]:
    """What stands in the way of each device: the made libraries have nothing behind their count."""
    return [problem.partition(":")[0] for problem in (await backend.scan()).problems]


async def test_a_driver_that_is_installed_later_is_seen_without_a_restart(
    backend: NvmlBackend, tmp_path: Path
) -> None:
    for _ in range(2):
        with pytest.raises(HardwareError, match=f"no {LIBRARY} under {tmp_path}") as caught:
            await backend.scan()
        remedy = caught.value.problems[0].remedy
        assert remedy.endswith(f"is under {tmp_path}"), "a command that ends does not look again"
    install(tmp_path, driver(2))
    assert await problems(backend) == ["device 0", "device 1"]


async def test_a_library_that_comes_before_its_kernel_module_is_tried_again(
    backend: NvmlBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, driver(1, starts=int(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)))
    for _ in range(2):
        with pytest.raises(HardwareError, match="Driver Not Loaded"):
            await backend.scan()
    library = backend._session._driver
    assert library is not None
    loaded = library._loaded
    assert loaded is not None
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {"nvmlInitWithFlags": lambda _flags: 0})
    assert await problems(backend) == ["device 0"]
    assert library._loaded is loaded, "the same file is not loaded twice"


async def test_a_driver_replaced_before_it_ran_is_loaded_anew(backend: NvmlBackend, tmp_path: Path) -> None:
    install(tmp_path, driver(1, starts=int(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)))
    with pytest.raises(HardwareError, match="version mismatch"):
        await backend.scan()
    install(tmp_path, driver(3))
    assert len(await problems(backend)) == 3


@pytest.mark.parametrize("part", [5_000, 200_000, -5_000])
async def test_a_library_that_is_just_being_copied_does_not_end_the_process(
    backend: NvmlBackend, tmp_path: Path, part: int
) -> None:
    library = system_library()
    install(tmp_path, library[: part if part > 0 else last_segment_end(library) + part])
    with pytest.raises(HardwareError, match="is incomplete"):
        await backend.scan()


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda library: library[:10], id="just begun"),
        pytest.param(lambda library: library[:100], id="without its table of segments"),
        pytest.param(lambda library: library[:-100], id="half written"),
        pytest.param(lambda library: b"", id="empty"),
        pytest.param(lambda library: library[:18] + b"\x03\x00" + library[20:], id="of another architecture"),
        pytest.param(lambda library: b"#!/bin/sh\n", id="no library at all"),
    ],
)
async def test_a_file_that_cannot_be_loaded_hides_no_other(
    backend: NvmlBackend, tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    install(tmp_path, spoil(driver(1)), "usr/lib64")
    with pytest.raises(HardwareError, match=f"usr/lib64/{LIBRARY}"):
        await backend.scan()
    install(tmp_path, driver(2), "usr/local/nvidia/lib64")
    assert len(await problems(backend)) == 2


@pytest.mark.parametrize(
    ("layout", "root"),
    [
        pytest.param({f"{DEBIAN}/{LIBRARY}": ""}, "/", id="on the host"),
        pytest.param({f"run/nvidia/driver/{DEBIAN}/{LIBRARY}": ""}, "/run/nvidia/driver", id="a container"),
        pytest.param(
            {f"home/kubernetes/bin/nvidia/lib64/{LIBRARY}": ""}, "/home/kubernetes/bin/nvidia", id="a cloud"
        ),
        pytest.param(
            {f"run/nvidia/driver/{DEBIAN}/{LIBRARY}": "", f"usr/lib64/{LIBRARY}": ""}, "/", id="both"
        ),
        pytest.param({f"run/nvidia/driver/{DEBIAN}/{LIBRARY}": "nowhere"}, "/", id="a link to nothing"),
        pytest.param({}, "/", id="nowhere"),
    ],
)
def test_where_the_driver_is_installed_is_found(layout: Layout, root: str, tmp_path: Path) -> None:
    assert driver_root_of(lay(tmp_path, layout)) == root


def test_two_libraries_of_one_process_are_not_mistaken_for_each_other(tmp_path: Path) -> None:
    """The bindings remember a library's functions by their names."""
    bindings: Any = SimpleNamespace(nvmlLib=None, _nvmlGetFunctionPointer_cache={})
    libraries = []
    for name in ("one", "other"):
        install(tmp_path / name, driver(1))
        libraries.append(DriverLibrary(tmp_path / name))
        libraries[-1].load(bindings)
        assert bindings._nvmlGetFunctionPointer_cache == {}
        bindings._nvmlGetFunctionPointer_cache[name] = 1
    libraries[-1].load(bindings)
    assert bindings._nvmlGetFunctionPointer_cache == {"other": 1}
