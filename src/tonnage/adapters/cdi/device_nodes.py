"""The driver's device nodes and MIG capabilities, put beside what a vendor says about its devices."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from tonnage.adapters.vendors.driver_thread import DriverThread, OverdueError
from tonnage.model.actions.devices import DeviceAction
from tonnage.model.devices.device_nodes import CAPABILITY_FOLDER, IMEX_FOLDER, DeviceNodes
from tonnage.model.devices.inventory import GpuProcess, Inventory, RawEvent, RawEventKind, Sample
from tonnage.model.mig.layouts import DividedGpu
from tonnage.ports.clock import Clock
from tonnage.ports.node import DeviceBackend

_MINORS: Final = "proc/driver/nvidia-caps/mig-minors"
_FOLDERS: Final = ("/dev", CAPABILITY_FOLDER, IMEX_FOLDER)
_DEADLINE_S: Final = 5.0
_BEAT_S: Final = 1.5
"""The beat of the agent's loops, so that it wakes once for all."""
_MOST: Final = 4096
_LONGEST: Final = 1 << 20


def read_device_nodes(root: Path, driver_root: Path | None = None) -> DeviceNodes:
    """What is there now; whatever cannot be read is not there.

    `root` stands before the node's /dev and /proc, `driver_root` is where the driver's files are mounted.
    """
    driver = frozenset[str]() if driver_root is None else frozenset(_nodes(driver_root))
    return DeviceNodes(frozenset(_nodes(root)), driver, _capabilities(root))


class NodesBeside:
    """A DeviceBackend over another one: an inventory has the nodes, and a change of them is an event.

    The kernel tells nobody that MIG devices were made, but it numbers their capabilities at once. A kernel
    module that does not answer holds up nobody: what was read last counts then.
    """

    def __init__(
        self, backend: DeviceBackend, clock: Clock, *, root: Path, driver_root: Path | None = None
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._root = root
        self._driver_root = driver_root
        self._thread = DriverThread("device-nodes", deadline_s=_DEADLINE_S)
        self._current = DeviceNodes()
        self._stamp = ""
        self._scanned: DeviceNodes | None = None
        """What an inventory has shown, or an event told of."""

    async def scan(self) -> Inventory:
        with suppress(OverdueError):
            await self._thread.call("read device nodes", self._read)
        nodes = self._current
        inventory = await self._backend.scan()
        self._scanned = nodes
        return replace(inventory, nodes=nodes)

    async def apply(self, step: DeviceAction) -> None:
        await self._backend.apply(step)

    async def divided(self) -> tuple[DividedGpu, ...]:
        return await self._backend.divided()

    async def events(self) -> AsyncIterator[RawEvent]:
        events = self._backend.events()
        event = asyncio.ensure_future(anext(events))
        change = asyncio.ensure_future(self._changed())
        try:
            while True:
                await asyncio.wait((event, change), return_when=asyncio.FIRST_COMPLETED)
                if change.done():
                    change.result()
                    change = asyncio.ensure_future(self._changed())
                    yield RawEvent(RawEventKind.CHANGED)
                if event.done():
                    raw_event = event.result()
                    event = asyncio.ensure_future(anext(events))
                    yield raw_event
        finally:
            event.cancel()
            change.cancel()
            await asyncio.gather(event, change, return_exceptions=True)
            if isinstance(events, AsyncGenerator):
                await events.aclose()

    async def sample(self, fields: Collection[str]) -> tuple[Sample, ...]:
        return await self._backend.sample(fields)

    async def processes(self) -> tuple[GpuProcess, ...]:
        return await self._backend.processes()

    def stuck_s(self) -> float:
        return self._backend.stuck_s()

    async def close(self) -> None:
        self._thread.close()
        await self._backend.close()

    async def _changed(self) -> None:
        """Return once the nodes are others than at the last scan, or than when a change was told."""
        while True:
            await self._clock.sleep(_BEAT_S - self._clock.monotonic() % _BEAT_S)
            with suppress(OverdueError):
                await self._thread.call("look at device nodes", self._look)
            if self._scanned is not None and self._current != self._scanned:
                self._scanned = self._current
                return

    def _look(self) -> None:
        """Read them if a look from outside says that something is new."""
        roots = (self._root,) if self._driver_root is None else (self._root, self._driver_root)
        stamp = _stamp(self._root, roots)
        if stamp != self._stamp:
            self._read()
            self._stamp = stamp

    def _read(self) -> None:
        self._current = read_device_nodes(self._root, self._driver_root)


def _stamp(root: Path, roots: Iterable[Path]) -> str:
    """When the folders of nodes changed, and the numbers of capabilities: they have no times of their own."""
    folders = (base / folder[1:] for base in roots for folder in _FOLDERS)
    return repr([*map(_changed_at, folders), _minors(root)])


def _changed_at(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _nodes(root: Path) -> Iterator[str]:
    """Character devices of the driver below `root`, as `/dev/…`; a link to one is one."""
    for folder in _FOLDERS:
        first = "nvidia" if folder == "/dev" else ""
        yield from (f"{folder}/{name}" for name in _devices(root / folder[1:], first))


def _devices(folder: Path, first: str) -> Iterator[str]:
    """Names of character devices that begin so. A node has hundreds, and each look costs."""
    try:
        with os.scandir(folder) as entries:
            for entry, _ in zip(entries, range(_MOST), strict=False):
                if entry.name.startswith(first) and _is_device(entry):
                    yield entry.name
    except OSError:
        return


def _is_device(entry: os.DirEntry[str]) -> bool:
    try:
        return stat.S_ISCHR(entry.stat().st_mode)
    except OSError:
        return False


def _minors(root: Path) -> str:
    try:
        with (root / _MINORS).open("rb") as file:
            return file.read(_LONGEST).decode("ascii", "replace")
    except OSError:
        return ""


def _capabilities(root: Path) -> Mapping[str, int]:
    """Minor numbers by name, as lines like `gpu0/gi1/access 12` say."""
    rows = (line.split() for line in _minors(root).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal() and len(row[1]) < 10}
