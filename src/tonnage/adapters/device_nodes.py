"""The driver's device nodes and MIG capabilities, put beside what a vendor says about its devices."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tonnage.adapters.ports import Clock, DeviceBackend
from tonnage.model.device_nodes import CAPABILITY_FOLDER, IMEX_FOLDER, DeviceNodes
from tonnage.model.devices import Inventory, RawEvent, RawEventKind, Sample

_MINORS: Final = "proc/driver/nvidia-caps/mig-minors"
_POLL_S: Final = 1.0
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

    The kernel tells nobody that MIG devices were made, but it numbers their capabilities at once.
    """

    def __init__(
        self, backend: DeviceBackend, clock: Clock, *, root: Path, driver_root: Path | None = None
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._root = root
        self._driver_root = driver_root
        self._seen: DeviceNodes | None = None

    async def scan(self) -> Inventory:
        nodes = await self._read()
        inventory = await self._backend.scan()
        self._seen = nodes
        return replace(inventory, nodes=nodes)

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
                    happened = event.result()
                    event = asyncio.ensure_future(anext(events))
                    yield happened
        finally:
            event.cancel()
            change.cancel()
            await asyncio.gather(event, change, return_exceptions=True)
            if isinstance(events, AsyncGenerator):
                await events.aclose()

    async def sample(self) -> tuple[Sample, ...]:
        return await self._backend.sample()

    def stuck_s(self) -> float:
        return self._backend.stuck_s()

    async def close(self) -> None:
        await self._backend.close()

    async def _changed(self) -> None:
        """Return once the nodes are others than at the last scan, or when a change was told."""
        while True:
            await self._clock.sleep(_POLL_S)
            nodes = await self._read()
            if self._seen is not None and nodes != self._seen:
                self._seen = nodes
                return

    async def _read(self) -> DeviceNodes:
        return await asyncio.to_thread(read_device_nodes, self._root, self._driver_root)


def _nodes(root: Path) -> Iterator[str]:
    """Character devices of the driver below `root`, as `/dev/…`; a link to one is one."""
    for folder in ("/dev", CAPABILITY_FOLDER, IMEX_FOLDER):
        names = sorted(_names(root / folder[1:]))
        wanted = (name for name in names if folder != "/dev" or name.startswith("nvidia"))
        yield from (f"{folder}/{name}" for name in wanted if _is_device(root / folder[1:] / name))


def _names(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry, _ in zip(entries, range(_MOST), strict=False):
                yield entry.name
    except OSError:
        return


def _is_device(path: Path) -> bool:
    try:
        return stat.S_ISCHR(path.stat().st_mode)
    except OSError:
        return False


def _capabilities(root: Path) -> Mapping[str, int]:
    """Minor numbers by name, as lines like `gpu0/gi1/access 12` say."""
    try:
        with (root / _MINORS).open("rb") as file:
            text = file.read(_LONGEST).decode("ascii", "replace")
    except OSError:
        return {}
    rows = (line.split() for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal() and len(row[1]) < 10}
