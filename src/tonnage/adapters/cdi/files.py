"""The folder where container runtimes look for CDI specs, and what specs are made of."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from tonnage.adapters.cdi.driver_files import PROGRAM_FOLDERS, find_driver_files, is_program, words_in
from tonnage.adapters.checkpoints import file_problem, remove_unfinished, write_atomic
from tonnage.adapters.host_paths import HostPaths, open_to_others
from tonnage.adapters.vendors.driver_root import LIBRARY_FOLDERS
from tonnage.model.devices.cdi import LATER_HOOKS, DriverFiles, SpecFile
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.names import CDI_MANAGEMENT_KIND, CDI_VENDOR
from tonnage.model.node.plugin_settings import CdiSettings

SPEC_FOLDER: Final = "var/run/cdi"
SPEC_FOLDERS: Final = ("/etc/cdi", f"/{SPEC_FOLDER}")
"""Where runtimes look; specs of the second win."""
MAX_BYTES: Final = 8 << 20
_KERNEL_FOLDERS: Final = ("/proc", "/sys")
_MANAGEMENT: Final = f"{CDI_MANAGEMENT_KIND.replace('/', '-')}.json"
_MOST_SPECS: Final = 100
_MOST_NAMES: Final = 20_000
_MOST_TOGETHER: Final = 64 << 20
"""Bytes of a folder's specs that are looked at."""
_OTHER_HOOK: Final = "/usr/bin/nvidia-cdi-hook"


class FolderCdi:
    """CdiFiles of a node. `root` stands before its paths, `driver_root` before the driver's if mounted.

    `host` stands before the paths of the host's programs; unless it is given they are seen where the driver's
    root is the host's own. `own_hook`: whoever runs this process names the hooks' program; a configuration
    may only name one that is root's. A spec is written beside its final name: containerd overlooks a file
    that comes from another folder.
    """

    def __init__(
        self, root: Path, driver_root: Path | None = None, *, host: Path | None = None, own_hook: bool = False
    ) -> None:
        self._root = root
        self._driver_root = driver_root
        self._host = HostPaths(root, driver_root, host=host)
        self._own_hook = own_hook
        self._specs = root / SPEC_FOLDER

    async def stamp(self) -> str:
        statuses = await asyncio.to_thread(lambda: list(self._statuses()))  # a file system may hang
        return ";".join(f"{status.st_ino}.{status.st_mtime_ns}.{status.st_size}" for status in statuses)

    async def driver_files(self, version: str, config: PluginConfig) -> DriverFiles:
        files = await asyncio.to_thread(
            find_driver_files, self._root, self._driver_root or self._root, version
        )
        hook, hooks, why = await asyncio.to_thread(self._hook, config)
        return replace(files, hook=hook, hooks=hooks, problems=(*files.problems, *why))

    async def read(self, name: str) -> bytes | None:
        return await asyncio.to_thread(read_spec, self._specs / name)

    async def write(self, name: str, content: bytes) -> None:
        await asyncio.to_thread(self._write, name, content)

    def _write(self, name: str, content: bytes) -> None:
        remove_unfinished(self._specs / name)
        # The folder is emptied at every boot, so that a spec need not outlast a loss of power.
        write_atomic(self._specs / name, content, mode=0o644, lasting=False)

    async def remove(self, name: str) -> None:
        await asyncio.to_thread(self._remove, name)

    def _remove(self, name: str) -> None:
        remove_unfinished(self._specs / name)
        try:
            (self._specs / name).unlink(missing_ok=True)
        except OSError as error:
            raise HardwareError(file_problem("cannot be removed", self._specs / name, error)) from None

    def _hook(self, config: PluginConfig) -> tuple[str, frozenset[str], tuple[str, ...]]:
        """(the hooks' program on the host, which newer hooks it knows, why one that is named is not used).

        One that whoever runs this process named counts where the host is out of sight; then it is taken for
        an old one. Runtimes run it as root, so it is looked at each time anew who may write it.
        """
        named = config.cdi.hook_path
        default = named == CdiSettings().hook_path
        visible = self._host.visible(config.driver_root)
        if visible is None:
            return named if self._own_hook else "", frozenset(), ()
        candidates = (_OTHER_HOOK, named) if default else (named,)
        program = next((path for path in candidates if is_program(visible, path)), "")
        trusted = default or self._own_hook
        if program and not trusted and (why := open_to_others(visible, program)):
            return "", frozenset(), (f"CDI hooks left out: {program} is not owned by root alone: {why}",)
        return program, words_in(visible, program, LATER_HOOKS) if program else frozenset(), ()

    def _statuses(self) -> Iterator[os.stat_result]:
        root = self._driver_root or self._root
        folders = [root / name for name in (*LIBRARY_FOLDERS, *PROGRAM_FOLDERS)]
        devices = [self._root / name for name in ("dev", "dev/dri", "dev/infiniband")]
        specs = islice(self._specs.glob(f"{CDI_VENDOR}-*.json"), _MOST_SPECS)
        for path in (*folders, *devices, self._specs / _MANAGEMENT, *specs):
            try:
                yield path.stat()
            except OSError:
                continue


def spec_files(places: Iterable[Path]) -> Iterator[SpecFile]:
    """Files, and the specs of folders as a runtime takes them: no folders below, no other names.

    Without any place it is the folders where runtimes look.
    """
    for place in tuple(places) or tuple(folder for folder in map(Path, SPEC_FOLDERS) if folder.is_dir()):
        if place.is_dir():
            yield from _in_folder(place)
        else:
            yield _spec_file(place, named=True)


def _in_folder(folder: Path) -> Iterator[SpecFile]:
    try:
        names, left_out = spec_names(folder)
    except HardwareError as error:
        yield SpecFile(str(folder), str(folder), problems=error.problems, named=True)
        return
    spare = _MOST_TOGETHER
    for number, name in enumerate(names):
        if spare <= 0:
            left_out += len(names) - number
            break
        file = _spec_file(folder / name)
        spare -= len(file.content or b"")
        yield file
    if left_out:
        yield SpecFile(str(folder), str(folder), left_out=left_out)


def _spec_file(file: Path, *, named: bool = False) -> SpecFile:
    path, folder = str(file), str(file.parent)
    try:
        content = read_spec(file)
    except HardwareError as error:
        return SpecFile(path, folder, problems=error.problems, named=named)
    if content is None:
        missing = Problem("file not found" if named else "the link is broken", path)
        return SpecFile(path, folder, problems=(missing,), named=named)
    return SpecFile(path, folder, content, leads_to=_elsewhere(file) if file.is_symlink() else "")


def _elsewhere(link: Path) -> str:
    """Where a link leads, if it is none of the folders of specs."""
    allowed = {_end_of(folder) for folder in (link.parent, *map(Path, SPEC_FOLDERS))}
    end = _end_of(link)
    return "" if end.parent in allowed else str(end)


def spec_names(folder: Path) -> tuple[list[str], int]:
    """(names of the specs of a folder, sorted; how many entries are beyond what is looked at).

    Raises:
        HardwareError: it cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            looked = list(islice(entries, _MOST_NAMES))
            names = [entry.name for entry in looked if not entry.is_dir(follow_symlinks=False)]
            return sorted(name for name in names if name.endswith((".json", ".yaml"))), sum(
                1 for _ in entries
            )
    except OSError as error:
        raise HardwareError(file_problem("cannot be read", folder, error)) from None


def read_spec(file: Path) -> bytes | None:
    """The bytes of a spec, None if there is none.

    Raises:
        HardwareError: it cannot be read, or no spec is as large.
    """
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK)  # a pipe of that name must not make us wait
        with os.fdopen(handle, "rb") as stream:
            why = _no_spec(file, os.fstat(handle))
            content = None if why else stream.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise HardwareError(file_problem("cannot be read", file, error)) from None
    if content is not None and len(content) > MAX_BYTES:
        content, why = None, os.strerror(errno.EFBIG)
    if content is None:
        raise HardwareError(Problem(f"{file.name} is not a CDI spec", str(file), why or "it is empty"))
    return content


def _end_of(path: Path) -> Path:
    """Where links lead; unlike Path.resolve it takes a circle of them."""
    return Path(os.path.realpath(path))


def _no_spec(file: Path, status: os.stat_result) -> str:
    """Why what was opened is not to be read; what the kernel tells may be gone once it is read."""
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    kernel = [Path(folder) for folder in _KERNEL_FOLDERS]
    devices = {folder.stat().st_dev for folder in kernel if folder.is_dir()}
    if status.st_dev in devices or any(map(_end_of(file).is_relative_to, kernel)):
        return f"it is a link into a kernel file system ({', '.join(_KERNEL_FOLDERS)})"
    return ""
