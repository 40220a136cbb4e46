"""NVIDIA devices through NVML. Facts only; a device that fails never hides another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

from tonnage.adapters.ports import Clock
from tonnage.adapters.vendors.driver_root import LIBRARY
from tonnage.adapters.vendors.driver_thread import DriverThread
from tonnage.adapters.vendors.nvml_activity import ActivityReader
from tonnage.adapters.vendors.nvml_events import EventWatch
from tonnage.adapters.vendors.nvml_links import read_links
from tonnage.adapters.vendors.nvml_reading import optional, read_device, read_sample
from tonnage.adapters.vendors.nvml_session import NvmlSession
from tonnage.model.devices import Device, Inventory, RawEvent, RawEventKind, Sample
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.links import Link

T = TypeVar("T")

_WAIT_MS: Final = 500
_RETRY_S: Final = 5.0
_DISPLAY: Final = ("DGX Display", "NVIDIA DGX Display")
_LINKS_PATIENCE_S: Final = 0.1
"""How long a scan waits for links that are being read; a later one shows them."""
_LINKS_DEADLINE_S: Final = 120.0
_LINK_XIDS: Final = frozenset({74, 137, *range(144, 151), 155, 156, 158})
"""Errors of NVLink and NVSwitch: after them the links may be others."""


class NvmlBackend:
    """A DeviceBackend over nvidia-ml-py; the library is loaded at the first call, in a thread of its own.

    `root` stands before the node's /sys and /proc. `driver_root` is where the driver's files are mounted;
    without it the library is where this system's own search finds it.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        root: Path = Path("/"),
        driver_root: Path | None = None,
        deadline_s: float = 10.0,
    ) -> None:
        self._clock = clock
        self._root = root
        self._driver_root = driver_root
        self._session = NvmlSession(root, driver_root)
        self._watch = EventWatch()
        self._activity = ActivityReader()
        self._calls = DriverThread("nvml", deadline_s=deadline_s)
        self._waits = DriverThread("nvml-events", deadline_s=deadline_s + _WAIT_MS / 1000)
        self._asks = DriverThread("nvml-links", deadline_s=_LINKS_DEADLINE_S)
        self._known: dict[str, Device] = {}
        self._links: tuple[Link, ...] = ()
        self._linked: frozenset[str] = frozenset()
        """The devices that were there when links were read."""
        self._reading: asyncio.Task[None] | None = None
        self._news = False

    async def scan(self) -> Inventory:
        inventory = await self._call("scan", lambda: self._afresh(self._scan))
        healthy = frozenset(device.uuid for device in inventory.devices if device.healthy)
        if self._reading is None and not healthy <= self._linked:
            self._reading = asyncio.create_task(self._read_links(healthy))
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=_LINKS_PATIENCE_S)
        self._news = False
        return replace(inventory, links=self._links)

    async def sample(self) -> tuple[Sample, ...]:
        return await self._call("sample", lambda: self._afresh(self._sample))

    async def events(self) -> AsyncIterator[RawEvent]:
        failures = 0
        while True:
            try:
                event = await self._waits.call("wait for events", self._wait)
            except self._session.errors(HardwareError):
                yield RawEvent(RawEventKind.CHANGED)
                failures += 1
                if failures > 1:  # one is no more than a device that was lost
                    await self._clock.sleep(_RETRY_S)
                continue
            failures = 0
            if event is not None:
                if event.code in _LINK_XIDS:
                    self._linked = frozenset()
                yield event
            elif self._news:
                self._news = False
                yield RawEvent(RawEventKind.CHANGED)

    def stuck_s(self) -> float:
        return max(self._calls.stuck_s(), self._waits.stuck_s())

    async def close(self) -> None:
        self._calls.close()
        self._waits.close()
        self._asks.close()
        if self._reading is not None:
            self._reading.cancel()

    async def _read_links(self, present: frozenset[str]) -> None:
        """Read them in their own time: a slow driver must not hold up what is said about devices."""
        self._linked = present
        try:
            self._links = await self._asks.call("read links", lambda: read_links(self._session))
            self._news = True
        except self._session.errors(HardwareError):
            self._linked = frozenset()  # the next scan asks again
        finally:
            self._reading = None

    async def _call(self, what: str, function: Callable[[], T]) -> T:
        try:
            return await self._calls.call(what, function)
        except self._session.errors() as error:
            visible = "visible to this process" if self._driver_root is None else f"under {self._driver_root}"
            remedy = f"is the NVIDIA driver loaded, and {LIBRARY} {visible}? it is looked for again and again"
            raise HardwareError(Problem(f"NVML: {error}", remedy=remedy)) from None

    def _afresh(self, read: Callable[[ModuleType], T]) -> T:
        """What `read` returns; after a failure of the node as a whole, once more with a new session.

        The driver was loaded anew, or replaced. Devices that came or went need a new session, too.
        """
        if self._session.outdated():
            self._session.close()
        nvml = self._session.open()
        try:
            return read(nvml)
        except nvml.NVMLError:
            self._session.close()
            return read(self._session.open())

    def _scan(self, nvml: ModuleType) -> Inventory:
        self._listen(nvml)  # first: what happens from here on is heard
        found: dict[int, Device] = {}
        failed: dict[int, str] = {}
        problems: list[str] = []
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                found[index], wrong = read_device(nvml, index, self._root)
            except nvml.NVMLError as error:
                failed[index] = str(error)
            else:
                problems += wrong
        seen = frozenset(device.uuid for device in found.values())
        self._listen(nvml, seen)
        for index, reason in failed.items():
            known = next((d for d in self._known.values() if d.index == index and d.uuid not in seen), None)
            if known is None:
                problems.append(f"device {index}: {reason}")
            else:
                found[index] = replace(known, healthy=False, reason=reason)
        self._known = {device.uuid: device for device in found.values()}
        cuda: int = optional(nvml, nvml.nvmlSystemGetCudaDriverVersion) or 0
        return Inventory(
            tuple(found[index] for index in sorted(found) if found[index].product not in _DISPLAY),
            optional(nvml, nvml.nvmlSystemGetDriverVersion) or "",
            f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
            tuple(problems),
        )

    def _listen(self, nvml: ModuleType, uuids: frozenset[str] | None = None) -> None:
        """A driver without events still has devices; `events` says CHANGED for it now and then."""
        with suppress(nvml.NVMLError):
            self._watch.cover(nvml, self._session.number, uuids)

    def _sample(self, nvml: ModuleType) -> tuple[Sample, ...]:
        samples: list[Sample] = []
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                uuid: str = nvml.nvmlDeviceGetUUID(handle)
            except nvml.NVMLError:
                continue  # what scan says about this device is the report
            activity = self._activity.read(nvml, self._session.number, uuid, handle)
            samples.append(replace(read_sample(nvml, handle, uuid), activity=activity))
        return tuple(samples)

    def _wait(self) -> RawEvent | None:
        with self._session.held() as nvml:
            return self._watch.next(nvml, self._session.number, _WAIT_MS)
